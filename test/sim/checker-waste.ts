import { storedWithin } from './disturbed-store.ts';
import type { Event } from './history.ts';

type Of<What extends Event['what']> = Extract<Event, { what: What }>;

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

/** Of a process; undefined: of whichever process works on the workspace, which changes hands, is opened anew, or stores nothing until then. */
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
    // Who has lost the workspace by then stores nothing of it.
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
