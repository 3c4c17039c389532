import type { Event } from './history.ts';

type Of<What extends Event['what']> = Extract<Event, { what: What }>;

/** So many failures in a row, of several things, are an outage. */
const FAILURES = 3;
/** In an outage one request in so many milliseconds looks whether it is over. */
const PROBE_EVERY = 30_000;
/** One is about to leave when the last of those fails, and one looks at once. */
const AT_ONCE = 2;

/** So long a workspace may take to end and to begin anew, milliseconds: what is asked until then was asked by what ends. */
const BEGINS_WITHIN = 10_000;

/** What a process knows of the workspace. */
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

/** What a request is about: of links, their task; of a record, what it is of. */
function subjectOf({ method, url, body }: Of<'sent'>): string {
  const { pathname } = new URL(url);
  const [task] = /\/tasks\/[^/]+/.exec(pathname) ?? [];
  const [number] = /"identifier":"[^"]+"/.exec(body) ?? [];
  return task ?? `${method} ${pathname} ${number ?? ''}`;
}
