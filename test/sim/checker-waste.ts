import type { Event } from './history.ts';

type Of<What extends Event['what']> = Extract<Event, { what: What }>;

/** A process that ends so soon after an answer may not have stored it. */
const SECOND = 1_000;

/** A record that was written, as whoever wrote it knows, is not written again with the same content: unless people changed it. */
export function rewrites(events: readonly Event[]): string[] {
  const isEdited = events.some((event) => event.what === 'happened' && isOfPeople(event.happening));
  const isRestored = events.some(({ what }) => what === 'restored');
  return isEdited || isRestored ? [] : repeated(events);
}

function isOfPeople(happening: unknown): boolean {
  return (happening as { readonly do: string }).do === 'edit-record';
}

function repeated(events: readonly Event[]): string[] {
  const ends = events.flatMap((event) => (event.what === 'killed' || event.what === 'stopped' ? [event] : []));
  const arrived = new Map<number, Of<'arrived'>>();
  const sent = new Map(events.flatMap((event) => (event.what === 'sent' ? [[event.id, event.at]] : [])));
  /** The last content that was written, and known to be written. */
  const known = new Map<string, { readonly body: string; readonly at: number }>();
  const found: string[] = [];
  const hear = ({ id, at, status }: Of<'heard'>) => {
    const request = arrived.get(id);
    if (!request || status < 200 || status >= 300) return;
    if (ends.some((end) => end.process === request.from && end.at >= at && end.at - at < SECOND)) return;
    known.set(recordOf(request), { body: request.body, at });
  };
  for (const event of events) {
    if (event.what === 'heard') hear(event);
    if (event.what !== 'arrived' || !isRecord(event)) continue;
    arrived.set(event.id, event);
    const name = recordOf(event);
    const before = known.get(name);
    known.delete(name);
    // One that is late may have been sent before.
    if (before?.body === event.body && (sent.get(event.id) ?? 0) >= before.at)
      found.push(`waste: ${event.from} writes ${name} at ${event.at} as it has been since ${before.at}`);
  }
  return found;
}

function isRecord({ from, method, path }: Of<'arrived'>): boolean {
  return from.startsWith('process-') && method === 'POST' && path.endsWith('/pull-requests');
}

function recordOf({ body }: Of<'arrived'>): string {
  const { provider, repoId, identifier } = JSON.parse(body) as Readonly<Record<string, unknown>>;
  return [provider, repoId, identifier].join(' ');
}
