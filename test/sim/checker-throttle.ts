import { type Event, isStoreDisturbed, type Of } from './history.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** A request that waits for its answer for longer stops no other one. */
const SLOW = SECOND;
/** With a refused credential one request looks whether it is taken again: first after this time, then after twice the last one. */
const FIRST_HALT = 5 * SECOND;
const LONGEST_HALT = MINUTE;

/** While transactions are rolled back, and for so long after, the row of a request may be older than {@link SLOW} when it leaves. */
const ROLLED_BACK = 10 * SECOND;

/** After a kill requests go one by one for a window, but for what its start took. */
const CAREFUL = 14 * MINUTE;

interface Asker {
  /** Requests that no answer is known of, and when they were sent. */
  readonly open: Map<number, number>;
  pausedUntil: number;
  haltedUntil: number;
  /** How long the last halt lasts, milliseconds; 0: the credential is taken. */
  haltFor: number;
  /** Refused, and nothing was taken since. */
  probesSince: number | undefined;
  isShared: boolean;
  /** The process before was killed while it used the quota. */
  carefulUntil: number;
}

/** How the daemon must treat a workspace that refuses: it waits as long as it was told to, probes, and goes one by one. */
export function impatience(events: readonly Event[], server: string): string[] {
  const askers = new Map<string, Asker>();
  const sent = new Map<number, Of<'sent'>>();
  const answers = new Map<number, Of<'answered'>>();
  const found: string[] = [];
  const users = new Set<string>();
  let concurrency = 0;
  let isAfterKill = false;
  let isRunning = false;
  let unstoredAt = Number.NEGATIVE_INFINITY;
  /** Others may go on where one of several was killed. */
  const isAlone = events.every((event) => event.what !== 'started' || event.replica === 0);
  const complain = (about: Of<'sent'>, text: string) =>
    void found.push(`throttle: ${about.from} ${text} at ${about.at}`);

  function leaves(request: Of<'sent'>): void {
    const asker = present(askers, request.from);
    const { at } = request;
    if (at < asker.pausedUntil) complain(request, `asks before the pause is over, at ${asker.pausedUntil}:`);
    if (at < asker.haltedUntil) complain(request, `asks with a refused credential, until ${asker.haltedUntil}:`);
    if (asker.open.size >= concurrency) complain(request, `has more than ${concurrency} requests under way`);
    const others = [...asker.open.values()];
    const isOneByOne = (asker.isShared || at < asker.carefulUntil) && at - unstoredAt > ROLLED_BACK;
    if (isOneByOne && others.some((since) => at - since < SLOW)) complain(request, 'does not go one by one');
    const { probesSince } = asker;
    if (probesSince !== undefined && others.some((since) => since > probesSince)) complain(request, 'probes twice');
    asker.open.set(request.id, at);
    users.add(request.from);
    sent.set(request.id, request);
  }

  function hears({ at, id, status }: Of<'heard'>): void {
    const request = sent.get(id);
    if (!request) return;
    const asker = present(askers, request.from);
    asker.open.delete(id);
    if (status === 429) {
      const hint = secondsOf(answers.get(id)?.body) * SECOND;
      asker.pausedUntil = Math.max(asker.pausedUntil, at + hint);
      asker.isShared = true;
      asker.probesSince = at;
    } else if (status === 401) {
      if (request.at >= asker.haltedUntil)
        asker.haltFor = Math.min(LONGEST_HALT, Math.max(FIRST_HALT, 2 * asker.haltFor));
      asker.haltedUntil = Math.max(asker.haltedUntil, request.at + asker.haltFor);
      asker.probesSince = at;
    } else if (status >= 200 && status < 500) {
      // Whatever it says of the request, it counted it. That is stored, for whoever takes the workspace over.
      for (const each of askers.values())
        if (request.at >= (each.probesSince ?? Number.POSITIVE_INFINITY))
          Object.assign(each, { probesSince: undefined, haltFor: 0 });
    }
  }

  const isDisturbed = isStoreDisturbed(events);
  for (const event of events) {
    // A refusal that could not be stored is forgotten when the workspace is opened again.
    if (isDisturbed && (event.what === 'owner' || event.what === 'configured'))
      for (const asker of askers.values())
        Object.assign(asker, { pausedUntil: 0, haltedUntil: 0, probesSince: undefined, isShared: false });
    if (event.what === 'configured') {
      concurrency = Math.max(concurrency, event.concurrency);
      // It is opened again, after an orderly end: who is killed before it asks anything leaves nothing in doubt.
      for (const asker of askers.values()) asker.carefulUntil = 0;
      users.clear();
      if (isRunning) isAfterKill = false;
    }
    if (event.what === 'unstored') unstoredAt = event.at;
    if (event.what === 'started') isRunning = true;
    if (event.what === 'killed' || event.what === 'stopped') isRunning = false;
    if (event.what === 'killed') isAfterKill ||= users.has(event.process);
    if (event.what === 'stopped') isAfterKill = false;
    if (event.what === 'started' && isAlone && isAfterKill)
      present(askers, event.process).carefulUntil = event.at + CAREFUL;
    if (event.what === 'sent' && event.from.startsWith('process-') && event.url.includes(server)) leaves(event);
    if (event.what === 'answered') answers.set(event.id, event);
    if (event.what === 'heard') hears(event);
  }
  return found;
}

/** A provider that told how long it wants to be left alone is asked nothing meanwhile by who heard it. */
export function askedLimited(events: readonly Event[], workspace: string): string[] {
  const sent = new Map<number, Of<'sent'>>();
  const answers = new Map<number, string>();
  const until = new Map<string, number>();
  const found: string[] = [];
  const nameOf = ({ from, url }: Of<'sent'>) => `${from} ${new URL(url).host}`;
  for (const event of events) {
    // Whoever opens the workspace anew asks once, and is told again.
    if (event.what === 'owner' || event.what === 'configured') until.clear();
    if (event.what === 'answered' && event.status === 429) answers.set(event.id, event.body);
    if (event.what === 'heard' && event.status === 429) {
      const request = sent.get(event.id);
      const hint = secondsOf(answers.get(event.id)) * SECOND;
      if (request) until.set(nameOf(request), Math.max(until.get(nameOf(request)) ?? 0, event.at + hint));
    }
    if (event.what !== 'sent' || !event.from.startsWith('process-') || event.url.includes(workspace)) continue;
    sent.set(event.id, event);
    const end = until.get(nameOf(event)) ?? 0;
    if (event.at < end)
      found.push(`limited: ${nameOf(event)} is asked at ${event.at}, and wants to be left alone until ${end}`);
  }
  return found;
}

function secondsOf(body = ''): number {
  return Number(/retry in (\d+) seconds/.exec(body)?.[1] ?? 0);
}

function present(askers: Map<string, Asker>, name: string): Asker {
  const known = askers.get(name);
  if (known) return known;
  const asker = {
    open: new Map(),
    pausedUntil: 0,
    haltedUntil: 0,
    haltFor: 0,
    probesSince: undefined,
    isShared: false,
    carefulUntil: 0,
  };
  askers.set(name, asker);
  return asker;
}

/** So many failures in a row, of several things, are an outage. */
const FAILURES = 3;
/** In an outage one request in so many milliseconds looks whether it is over. */
const PROBE_EVERY = 30_000;
/** One is about to leave when the last of those fails, and one looks at once. */
const AT_ONCE = 2;

/** So long a workspace may take to end and to begin anew, milliseconds: what is asked until then was asked by what ends. */
const BEGINS_WITHIN = 10_000;

interface View {
  failures: number;
  readonly about: Set<string>;
  /** Since when it is an outage, and how often it has asked since. */
  outage: { readonly since: number; asked: number; readonly open: Set<number> } | undefined;
}

/** While nothing gets through, a process asks seldom, and one by one: each request takes a slot of the quota that everybody shares. */
export function restless(events: readonly Event[], server: string): string[] {
  const views = new Map<string, View>();
  const sent = new Map<number, Of<'sent'>>();
  const found: string[] = [];
  let anewFrom = 0;

  function leaves(request: Of<'sent'>): void {
    const { id, at, from, url } = request;
    sent.set(id, request);
    const outage = views.get(from)?.outage;
    if (!outage) return;
    outage.asked++;
    if (outage.open.size > 0)
      found.push(`waste: ${from} asks ${url} at ${at}, and waits for another answer in an outage`);
    outage.open.add(id);
    const most = AT_ONCE + Math.floor((at - outage.since) / PROBE_EVERY);
    if (outage.asked > most)
      found.push(
        `waste: ${from} asks ${url} at ${at}, the ${outage.asked}th since nothing gets through: ${outage.since}`,
      );
  }

  function hears({ id, at, status }: Of<'heard'>): void {
    const request = sent.get(id);
    if (!request) return;
    views.get(request.from)?.outage?.open.delete(id);
    // It may have been sent by what has ended, or by what began at once: then this is known to be over.
    if (status !== 0 && status < 500) return void views.delete(request.from);
    if (request.at < anewFrom) return;
    const view = views.get(request.from) ?? { failures: 0, about: new Set(), outage: undefined };
    views.set(request.from, view);
    view.failures++;
    view.about.add(subjectOf(request));
    if (view.failures >= FAILURES && view.about.size > 1) view.outage ??= { since: at, asked: 0, open: new Set() };
  }

  for (const event of events) {
    // It begins anew, and knows nothing.
    if (event.what === 'configured' || event.what === 'owner') {
      views.clear();
      anewFrom = event.at + BEGINS_WITHIN;
    }
    if (event.what === 'sent' && new URL(event.url).host === server) leaves(event);
    if (event.what === 'heard') hears(event);
  }
  return found;
}

function subjectOf({ method, url, body }: Of<'sent'>): string {
  const { pathname } = new URL(url);
  const [task] = /\/tasks\/[^/]+/.exec(pathname) ?? [];
  const [number] = /"identifier":"[^"]+"/.exec(body) ?? [];
  return task ?? `${method} ${pathname} ${number ?? ''}`;
}
