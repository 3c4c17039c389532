import { differences } from './checker-convergence.ts';
import { askedLimited, impatience, restless } from './checker-throttle.ts';
import { rewrites, writtenWrongly } from './checker-waste.ts';
import type { Event, Look, Of } from './history.ts';
import { isEcho } from './jira-writes.ts';
import { WORKSPACE } from './network.ts';

/** Returns everything observed that must never happen. Knows nothing of the program except what can be observed. */
export function violations(events: readonly Event[]): string[] {
  return [
    ...unexpected(events),
    ...lostDeliveries(events),
    ...unwarned(events),
    ...doubleCreates(events),
    ...overQuota(events),
    ...backwards(events),
    ...sentWithoutLease(events),
    ...writtenWrongly(events),
    ...unsettled(events),
    ...impatience(events, WORKSPACE),
    ...askedLimited(events, WORKSPACE),
    ...promises(events),
    ...calm(events),
    ...refused(events),
    ...rewrites(events),
    ...restless(events, WORKSPACE),
  ];
}

function all<What extends Event['what']>(events: readonly Event[], what: What): readonly Of<What>[] {
  return events.filter((event): event is Of<What> => event.what === what);
}

const MINUTE = 60_000;

function unexpected(events: readonly Event[]): string[] {
  return all(events, 'unexpected').map(({ text }) => `unexpected: ${text}`);
}

/**
 * Each delivery that was acknowledged is in the inbox, and ended well; unless a backup from before it was restored. It was there
 * when it was answered: its sender hears of that later, perhaps when the backup is back already.
 */
function lostDeliveries(events: readonly Event[]): string[] {
  const ended = new Map(all(events, 'inbox').map(({ connection, key, state }) => [`${connection} ${key}`, state]));
  const restores = all(events, 'restored');
  const answered = new Map(all(events, 'answered').map(({ id, at }) => [id, at]));
  return acknowledged(events).flatMap(({ at: heardAt, id, connection, key, isBroken }) => {
    const at = answered.get(id ?? 0) ?? heardAt;
    if (restores.some((restore) => at >= restore.backupAt && at <= restore.at)) return [];
    const state = ended.get(`${connection} ${key}`);
    // A delivery that only repeats worksync's own write is ignored.
    const isKnown = state === 'ignored' && isEcho(key);
    // Its repaired form is another delivery, which may have come after the backup.
    if (isBroken && state === 'quarantined') return [];
    return state === 'applied' || state === 'superseded' || isKnown
      ? []
      : [`lost: delivery ${key} of ${connection} was acknowledged at ${at} and is ${state ?? 'nowhere'}`];
  });
}

function acknowledged(events: readonly Event[]): readonly Of<'hook'>[] {
  return all(events, 'hook').filter(({ status }) => status >= 200 && status < 300);
}

/** People are told of what nobody can read; unless a backup from before it was restored. */
function unwarned(events: readonly Event[]): string[] {
  const warned = new Set(all(events, 'warned').map(({ key }) => key));
  const restores = all(events, 'restored');
  const taken = acknowledged(events);
  const isKnown = ({ at, connection, key }: Of<'hook'>) =>
    taken.some((each) => !each.isBroken && each.key === key && each.connection === connection && each.at < at);
  return (
    taken
      .filter(({ isBroken }) => isBroken)
      // A delivery that arrived intact before is in the inbox already.
      .filter(
        (hook) =>
          !warned.has(hook.key) &&
          !isKnown(hook) &&
          !restores.some((restore) => hook.at >= restore.backupAt && hook.at <= restore.at),
      )
      .map(({ key, at }) => `unwarned: nobody was told of delivery ${key}, which came at ${at}`)
  );
}

/** A request at the workspace by one of our processes, and what the server did; undefined: nothing. */
interface Exchange extends Pick<Of<'arrived'>, 'id' | 'at' | 'method' | 'path' | 'body'> {
  readonly status: number | undefined;
  readonly answer: string;
}

function exchanges(events: readonly Event[]): readonly Exchange[] {
  const answers = new Map(all(events, 'answered').map((answer) => [answer.id, answer]));
  return all(events, 'arrived')
    .filter(({ server, from }) => server === WORKSPACE && from.startsWith('process-'))
    .map(({ at, id, method, path, body }) => {
      const answer = answers.get(id);
      return { id, at, method, path, body, status: answer?.status, answer: answer?.body ?? '' };
    });
}

/** No create is carried out twice. Where somebody took a link away, it may be made again. */
function doubleCreates(events: readonly Event[]): string[] {
  const seen = new Map<string, number>();
  const found: string[] = [];
  for (const { method, path, body, status, answer, at } of exchanges(events)) {
    if (method === 'DELETE' && status === 204)
      for (const name of seen.keys()) if (name.startsWith('link')) seen.delete(name);
    if (method !== 'POST' || status !== 201) continue;
    const name = createdName(path, body, answer);
    const before = seen.get(name);
    const takenAway = all(events, 'unlinked').some((each) => each.at > (before ?? at) && each.at < at);
    if (before !== undefined && !(takenAway && name.startsWith('link')))
      found.push(`created twice: ${name}, at ${before} and at ${at}`);
    seen.set(name, at);
  }
  return found;
}

function createdName(path: string, body: string, answer: string): string {
  const sent = JSON.parse(body) as Readonly<Record<string, unknown>>;
  if (path.endsWith('/pull-request-records'))
    return `record ${[sent['provider'], sent['repoId'], sent['identifier']].join(' ')}`;
  if (path.endsWith('/work-items'))
    return `link ${(JSON.parse(answer) as { taskId: string }).taskId} ${String(sent['url'])}`;
  return `task of ${String(sent['source'])}`;
}

function promises(events: readonly Event[]): string[] {
  const broken = all(events, 'promised').filter(({ took }) => took === null);
  return broken.map(({ at, name, within }) => `slow: ${name} was not seen within ${within / 1_000} s, until ${at}`);
}

/** It asks for nothing that the workspace does not know or take; what it removes may be gone, and what it has given up comes late. */
function refused(events: readonly Event[]): string[] {
  const isRefusal = ({ method, status = 0 }: Exchange) =>
    method !== 'DELETE' && status >= 400 && status < 500 && ![401, 412, 429].includes(status);
  return exchanges(events)
    .filter((exchange) => isRefusal(exchange) && !isGivenUp(exchange, events))
    .map(({ at, method, path, status }) => `refused: ${method} ${path} at ${at}, with ${status}`);
}

function isGivenUp({ id, at }: Exchange, events: readonly Event[]): boolean {
  return all(events, 'heard').some((heard) => heard.id === id && heard.status === 0 && heard.at < at);
}

/** Where nothing is disturbed few requests are made, and none of them writes what is there. */
function calm(events: readonly Event[]): string[] {
  const asked = exchanges(events);
  const sent = all(events, 'sent').filter(({ url }) => !url.includes(WORKSPACE));
  const isAlone = all(events, 'started').every(({ replica }) => replica === 0);
  const isCounted = (exchange: Exchange) =>
    exchange.method !== 'GET' && !isTaskUpdate(exchange) && (isAlone || !isNewLink(exchange));
  return all(events, 'calm').flatMap(({ at: end, name, began, writes, reads, asked: most = Infinity }) => {
    const within = asked.filter(({ at }) => at > began && at <= end);
    const made = within.filter(isCounted);
    const read = within.filter(({ method }) => method === 'GET');
    const few = (count: number, most: number, what: string) =>
      count <= most ? [] : [`waste: while ${name}, from ${began} on, it made ${count} ${what}, and ${most} are enough`];
    const elsewhere = sent.filter(({ at }) => at > began && at <= end);
    return [
      ...few(made.length, writes, 'writes'),
      ...few(read.length, reads, 'reads'),
      ...few(elsewhere.length, most, 'requests elsewhere'),
    ];
  });
}

/** The end of the run shows if it was due. */
function isTaskUpdate({ method, path }: Exchange): boolean {
  return method === 'PUT' && /\/tasks\/[^/]+$/.test(path);
}

/** Whether it is one that should be there is asked in the end. */
function isNewLink({ method, path, status }: Exchange): boolean {
  return method === 'POST' && path.endsWith('/work-items') && status === 201;
}

/** By arrivals at the service: refused ones too, since whoever is refused should not have asked. */
function overQuota(events: readonly Event[]): string[] {
  const times = exchanges(events).map(({ at }) => at);
  const shares = all(events, 'configured').map(({ share }) =>
    share === 'auto' ? { long: 0.985, burst: 0.8 } : { long: share, burst: share },
  );
  const [long, burst] = [Math.max(...shares.map((each) => each.long)), Math.max(...shares.map((each) => each.burst))];
  return [
    ...over(times, 40, MINUTE),
    ...over(times, 200, 15 * MINUTE),
    ...over(times, Math.floor(40 * burst), MINUTE),
    ...over(times, Math.floor(200 * long), 15 * MINUTE),
  ];
}

function over(times: readonly number[], most: number, window: number): string[] {
  const sorted = times.toSorted((one, other) => one - other);
  for (const [index, at] of sorted.entries()) {
    const first = sorted[index - most];
    if (first !== undefined && at - first < window)
      return [`quota: more than ${most} requests within ${window / 1_000} s, until ${at}`];
  }
  return [];
}

/** A late older state may overwrite a newer one, but for no longer than this, once nothing is disturbed any more. */
const REPAIRED_WITHIN = 45 * MINUTE;

function backwards(events: readonly Event[]): string[] {
  const calm = all(events, 'healed')[0]?.at ?? 0;
  const end = events.at(-1)?.at ?? 0;
  const newest = new Map<string, number>();
  const since = new Map<string, number>();
  const found: string[] = [];
  const close = (name: string, at: number) => {
    const began = since.get(name);
    since.delete(name);
    const limit = Math.max(began ?? at, calm) + REPAIRED_WITHIN;
    if (began !== undefined && at > limit)
      found.push(`backwards: ${name} showed an older state from ${began} until ${at}`);
  };
  for (const { method, path, body, status, at } of exchanges(events)) {
    if (method !== 'POST' || !path.endsWith('/pull-request-records') || status === undefined || status >= 300) continue;
    const name = createdName(path, body, '');
    const version = Number(/ v(\d+)"/.exec(body)?.[1] ?? 0);
    const isOlder = version < (newest.get(name) ?? 0);
    if (isOlder && !since.has(name)) since.set(name, at);
    if (!isOlder) close(name, at);
    newest.set(name, Math.max(version, newest.get(name) ?? 0));
  }
  for (const name of [...since.keys()]) close(name, end);
  return found;
}

function sentWithoutLease(events: readonly Event[]): string[] {
  let owner: Of<'owner'> | undefined;
  const found: string[] = [];
  for (const event of events) {
    if (event.what === 'owner') owner = event;
    if (event.what !== 'sent' || !owner || !event.url.includes(WORKSPACE) || event.replica === owner.replica) continue;
    found.push(
      `lease: ${event.from} of replica ${event.replica} sent ${event.method} ${event.url} at ${event.at}, which replica ${owner.replica} owned since ${owner.at}`,
    );
  }
  return found;
}

/** How long everything may take after it was healed, beside what the quota needs for what waits. */
const SETTLED_WITHIN = 120 * MINUTE;

function unsettled(events: readonly Event[]): string[] {
  const healed = all(events, 'healed')[0];
  const look = all(events, 'looked').at(-1);
  if (!healed || !look) return ['unsettled: nobody looked'];
  const found = leftOf(look, events);
  const first = all(events, 'looked')[0] ?? look;
  const sent = exchanges(events).filter(({ at }) => at > healed.at && at <= first.at).length;
  const took = first.at - healed.at;
  const allowed = SETTLED_WITHIN + (sent / 200) * 15 * MINUTE;
  if (found.length === 0 && took > allowed) found.push(`it took ${took / MINUTE} minutes`);
  return found.map((text) => `unsettled: ${text}`);
}

function leftOf(look: Look, events: readonly Event[]): string[] {
  const left = look.left === 0 ? [] : [`${look.left ?? 'nobody works, and an unknown number'} left to do`];
  return [...left, ...differences(look, events)];
}
