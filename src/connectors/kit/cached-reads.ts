import { asSyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';

/** How long something is cached, milliseconds: lists, names and processes change seldom. */
const REFRESH_AFTER = 12 * 60_000;

/**
 * Things that are cached by name, and read again when they are old. Where a passing failure prevents that, the caller gets the
 * old one, and the next call tries again.
 */
export function createCache<Value>(
  clock: Clock,
  load: (name: string, signal: AbortSignal) => Promise<Value>,
  refreshAfter = REFRESH_AFTER,
): (name: string, signal: AbortSignal) => Promise<Value> {
  const held = new Map<string, { readonly value: Value; readonly until: number }>();
  return async (name, signal) => {
    const known = held.get(name);
    if (known && clock.monotonic() < known.until) return known.value;
    try {
      const value = await load(name, signal);
      held.set(name, { value, until: clock.monotonic() + refreshAfter });
      return value;
    } catch (thrown) {
      if (!known || asSyncError(thrown).verdict !== 'retry' || signal.aborted) throw thrown;
      return known.value;
    }
  };
}

/** The same for one list. */
export function createListing<Element>(
  clock: Clock,
  load: (signal: AbortSignal) => Promise<readonly Element[]>,
  refreshAfter = REFRESH_AFTER,
): (signal: AbortSignal) => Promise<readonly Element[]> {
  const cache = createCache(clock, (_, signal) => load(signal), refreshAfter);
  return (signal) => cache('', signal);
}

export interface Memory<Page> {
  /** Asks with the validator of this place's last answer; on a 304 resolves with the page that was read then. */
  read(
    place: string,
    ask: (etag: string | undefined) => Promise<HttpAnswer>,
    parse: (answer: HttpAnswer) => Page,
  ): Promise<Page>;
}

/** Pages of a list with their validators, for as long as the process lives: for an unchanged list vendors send free 304s. */
export function createMemory<Page>(): Memory<Page> {
  const pages = new Map<string, { etag: string; page: Page }>();
  return {
    async read(place, ask, parse) {
      const known = pages.get(place);
      const answer = await ask(known?.etag);
      if (known && answer.status === 304) return known.page;
      const page = parse(answer);
      const etag = answer.headers['etag'];
      if (etag === undefined) pages.delete(place);
      else pages.set(place, { etag, page });
      return page;
    },
  };
}

/** Asks once, and keeps the answer; asks again only where that failed. */
export function memoizeSuccess<Answer>(
  ask: (signal: AbortSignal) => Promise<Answer>,
): (signal: AbortSignal) => Promise<Answer> {
  let known: { readonly answer: Answer } | undefined;
  return async (signal) => {
    known ??= { answer: await ask(signal) };
    return known.answer;
  };
}

/** Asks when it is first needed, and once. */
export function memoize<Answer>(ask: () => Promise<Answer>): () => Promise<Answer> {
  let asked: Promise<Answer> | undefined;
  return () => (asked ??= ask());
}
