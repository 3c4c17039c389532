import { type Event, type Look, linkedSinceBackup, type Of, storedWithin } from './history.ts';
import { WORKSYNC } from './jira-writes.ts';

/** A record that was written, as whoever wrote it knows, is not written again with the same content: unless people changed it. */
export function rewrites(events: readonly Event[]): string[] {
  const isEdited = events.some((event) => event.what === 'happened' && isOfPeople(event.happening));
  const isRestored = events.some(({ what }) => what === 'restored');
  return isEdited || isRestored ? [] : repeated(events);
}

interface Happened {
  readonly do: string;
  readonly for?: number;
  readonly replica?: number;
  readonly back?: number;
}

/** Milliseconds between two times in which a replica was not suspended. */
function awakeBetween(events: readonly Event[]): (replica: number | undefined, from: number, to: number) => number {
  const sleeps = events.flatMap((event) => {
    const happening = event.what === 'happened' ? (event.happening as Happened) : undefined;
    if (happening?.do !== 'sleep') return [];
    return [{ replica: happening.replica, from: event.at, to: event.at + (happening.back ?? 0) }];
  });
  return (replica, from, to) => {
    const own = sleeps.filter((sleep) => sleep.replica === replica);
    const slept = own.map((sleep) => Math.max(0, Math.min(to, sleep.to) - Math.max(from, sleep.from)));
    return to - from - slept.reduce((sum, each) => sum + each, 0);
  };
}

function isOfPeople(happening: unknown): boolean {
  return (happening as Happened).do === 'edit-record';
}

/** The end of a process. Without a process: a moment at which the workspace changes its owner, is opened again, or can store nothing. */
interface End {
  readonly at: number;
  readonly until?: number;
  readonly process?: string;
}

function endOf(event: Event): readonly End[] {
  if (event.what === 'owner' || event.what === 'configured') return [{ at: event.at }];
  if (event.what !== 'happened') return event.what === 'killed' || event.what === 'stopped' ? [event] : [];
  const happening = event.happening as Happened;
  const storesNothing = ['disk-full', 'store-away', 'store-slow'].includes(happening.do);
  return storesNothing ? [{ at: event.at, until: event.at + (happening.for ?? 0) }] : [];
}

function repeated(events: readonly Event[]): string[] {
  const ends = events.flatMap(endOf);
  // A process that ends so soon after an answer may not have stored it, nor one that loses the workspace.
  const soon = storedWithin(events);
  const awake = awakeBetween(events);
  const arrived = new Map<number, Of<'arrived'>>();
  const sent = new Map(events.flatMap((event) => (event.what === 'sent' ? [[event.id, event.at]] : [])));
  const heard = new Map(events.flatMap((event) => (event.what === 'heard' ? [[event.id, event.status]] : [])));
  const unstored = events.filter((event) => event.what === 'unstored');
  /** The last content that was written, and known to be written. */
  const known = new Map<string, { readonly body: string; readonly at: number }>();
  const found: string[] = [];
  const replicaOf = new Map<string, number>();
  let owner: number | undefined;
  const hear = ({ id, at, status }: Of<'heard'>) => {
    const request = arrived.get(id);
    if (!request || status < 200 || status >= 300) return;
    // A process that has lost the workspace stores nothing.
    if (owner !== undefined && replicaOf.get(request.from) !== owner) return;
    const isItsEnd = ({ process }: End) => process === undefined || process === request.from;
    const tried = lastTried(request.from, at);
    const replica = replicaOf.get(request.from);
    if (ends.some((end) => isItsEnd(end) && (end.until ?? end.at) >= at && awake(replica, tried, end.at) < soon))
      return;
    known.set(recordOf(request.body), { body: request.body, at });
  };
  /** When it was tried last to store what that process heard at a time: the same transaction fails again and again, from then on. */
  const lastTried = (process: string, at: number) => {
    const tried = new Map<string, number>();
    for (const failed of unstored) {
      const before = tried.get(failed.transaction) ?? at;
      const isSoon = awake(replicaOf.get(process), before, failed.at) < soon;
      const isNext = failed.process === process && failed.at >= before && isSoon;
      if (isNext) tried.set(failed.transaction, failed.at);
    }
    return Math.max(at, ...tried.values());
  };
  /** Where nobody can tell whether another content was written, what stands there is not known any more. */
  const leave = ({ id, body }: Of<'sent'>) => {
    const status = heard.get(id) ?? 0;
    const isUnsure = status === 0 || status >= 500;
    if (isUnsure && known.get(recordOf(body))?.body !== body) known.delete(recordOf(body));
  };
  for (const event of events) {
    if (event.what === 'owner') owner = event.replica;
    if (event.what === 'started') replicaOf.set(event.process, event.replica);
    if (event.what === 'heard') hear(event);
    if (event.what === 'sent' && isRecord(event, event.url)) leave(event);
    if (event.what !== 'arrived' || !isRecord(event, event.path)) continue;
    arrived.set(event.id, event);
    const name = recordOf(event.body);
    const before = known.get(name);
    known.delete(name);
    // One that is late may have been sent before.
    if (before?.body === event.body && (sent.get(event.id) ?? 0) >= before.at)
      found.push(`waste: ${event.from} writes ${name} at ${event.at} as it has been since ${before.at}`);
  }
  return found;
}

function isRecord({ from, method }: Of<'sent' | 'arrived'>, path: string): boolean {
  return from.startsWith('process-') && method === 'POST' && path.endsWith('/pull-request-records');
}

function recordOf(body: string): string {
  const { provider, repoId, identifier } = JSON.parse(body) as Readonly<Record<string, unknown>>;
  return [provider, repoId, identifier].join(' ');
}

type Issue = Look['issues'][number];
type Comments = NonNullable<Issue['comments']>;

export function writtenWrongly(events: readonly Event[]): string[] {
  const look = events.findLast((event) => event.what === 'looked');
  if (!look) return [];
  const commented = look.issues.filter(({ comments }) => comments);
  const remarks = events.filter((event) => event.what === 'remarked');
  return [
    ...commented.flatMap(({ key, comments }) => doubled(key, comments as Comments)),
    ...remarks.flatMap(({ url, text }) => overwritten(commented, url, text)),
    ...closedAgain(events),
  ];
}

function doubled(key: string, comments: Comments): string[] {
  const own = comments.filter(({ author }) => author === WORKSYNC);
  return own.length > 1 ? [`double: ${own.length} comments of worksync on ${key}`] : [];
}

function overwritten(issues: readonly Issue[], url: string, text: string): string[] {
  const issue = issues.find((each) => each.url === url);
  if (!issue || issue.comments?.some((comment) => comment.author !== WORKSYNC && comment.text === text)) return [];
  return [`overwritten: a person's comment on ${issue.key} is gone or changed`];
}

const TRANSITION = /^\/rest\/api\/3\/issue\/(\d+)\/transitions$/;

/**
 * Whoever reopens what worksync closed finds it open until all its tasks are finished once more: since then one was finished, or
 * one had joined. A closing of which worksync never heard may be repeated.
 */
function closedAgain(events: readonly Event[]): string[] {
  const heard = new Set(events.flatMap((event) => (event.what === 'heard' && event.status !== 0 ? [event.id] : [])));
  const unsure = events.filter(({ what }) => what === 'killed' || what === 'restored').map(({ at }) => at);
  const soon = storedWithin(events);
  const closings = events.flatMap((event) => {
    const isClosing = event.what === 'arrived' && event.method === 'POST' && event.server === 'jira.test';
    const issue = isClosing ? TRANSITION.exec(event.path)?.[1] : undefined;
    return issue === undefined || event.what !== 'arrived'
      ? []
      : [{ at: event.at, issue, isHeard: heard.has(event.id) }];
  });
  return [...Map.groupBy(closings, ({ issue }) => issue).values()].flatMap((all) =>
    all.slice(1).flatMap((closing, index) => {
      const before = all[index] as (typeof all)[number];
      const within = (at: number) => at >= before.at && at <= closing.at;
      const joins = joiningOf(closing.issue, events);
      // One that joined while the closing was on its way, and has left since, was not counted then.
      const isNews = events.some(
        (event) =>
          (isFinish(event) && within(event.at)) ||
          (joins(event) && event.at >= before.at - soon && event.at <= closing.at),
      );
      if (!before.isHeard || isNews || unsure.some(within)) return [];
      return [`overwritten: issue ${closing.issue} was closed at ${before.at}, and once more at ${closing.at}`];
    }),
  );
}

function isFinish(event: Event): boolean {
  if (event.what === 'arrived') return event.method === 'PUT' && event.body.includes('"status":"completed"');
  return event.what === 'finished' || (event.what === 'status-set' && event.status === 'completed');
}

function joiningOf(issue: string, events: readonly Event[]): (event: Event) => boolean {
  const looks = events.filter((event) => event.what === 'looked');
  const url = looks.at(-1)?.issues.find(({ key }) => key.endsWith(`:${issue}`))?.url;
  return (event) =>
    event.what === 'arrived' &&
    event.method === 'POST' &&
    event.path.endsWith('/work-items') &&
    (JSON.parse(event.body) as { readonly url: string }).url === url;
}

/** In what the comments do not say what the links are; empty when all is well. */
export function commentDifferences({ issues, tasks, links }: Look, events: readonly Event[]): string[] {
  const touched = new Set(
    events.flatMap((event) => (event.what === 'linked' || event.what === 'unlinked' ? [event.url] : [])),
  );
  const sinceBackup = linkedSinceBackup(events);
  return issues.flatMap(({ key, url, comments }) => {
    if (!comments || touched.has(url)) return [];
    const keys = tasks.filter(({ taskId }) => links.some((link) => link.taskId === taskId && link.url.startsWith(url)));
    if (keys.some(({ taskId }) => sinceBackup.has(taskId))) return [];
    const wanted = textOf(keys.map((task) => task.key).sort());
    const said = comments.find(({ author }) => author === WORKSYNC)?.text.split('\n')[0];
    // An item that never had a task gets no comment.
    if (said === wanted || (said === undefined && keys.length === 0)) return [];
    return [`comment on ${key}: "${said ?? 'none'}", not "${wanted}"`];
  });
}

function textOf(keys: readonly string[]): string {
  return keys.length === 0 ? 'Not linked to a task any more.' : `Linked to ${new Intl.ListFormat('en').format(keys)}.`;
}
