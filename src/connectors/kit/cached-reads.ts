import { asSyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Clock } from '../../platform/lib/clock.ts';

/** The lifetime of a cached value, milliseconds. Lists, names and workflows change seldom. */
const REFRESH_AFTER = 12 * 60_000;

/**
 * Creates a cache by name, which reloads a value when it is old. If a temporary failure prevents that, it returns the old value,
 * and the next call tries again.
 */
export function createCache<Value>(
  clock: Clock,
  load: (name: string, signal: AbortSignal) => Promise<Value>,
  refreshAfter = REFRESH_AFTER,
): (name: string, signal: AbortSignal) => Promise<Value> {
  const entries = new Map<string, { readonly value: Value; readonly until: number }>();
  return async (name, signal) => {
    const cached = entries.get(name);
    if (cached && clock.monotonic() < cached.until) return cached.value;
    try {
      const value = await load(name, signal);
      entries.set(name, { value, until: clock.monotonic() + refreshAfter });
      return value;
    } catch (thrown) {
      if (!cached || asSyncError(thrown).verdict !== 'retry' || signal.aborted) throw thrown;
      return cached.value;
    }
  };
}

/** Creates such a cache for one value, such as a list. */
export function createListing<Value>(
  clock: Clock,
  load: (signal: AbortSignal) => Promise<Value>,
  refreshAfter = REFRESH_AFTER,
): (signal: AbortSignal) => Promise<Value> {
  const cache = createCache(clock, (_, signal) => load(signal), refreshAfter);
  return (signal) => cache('', signal);
}

/** The pages of a list with their validators. */
export type Memory<Page> = ReturnType<typeof createMemory<Page>>;

/** Creates a memory for the lifetime of the process. A 304 for an unchanged page uses nothing of the vendor's limit. */
export function createMemory<Page>() {
  const pages = new Map<string, { etag: string; page: Page }>();
  return {
    /** Sends the validator of the last answer for this address; returns the remembered page on a 304. */
    async read(
      address: string,
      request: (etag: string | undefined) => Promise<HttpAnswer>,
      parse: (answer: HttpAnswer) => Page,
    ): Promise<Page> {
      const known = pages.get(address);
      const answer = await request(known?.etag);
      if (known && answer.status === 304) return known.page;
      const page = parse(answer);
      const etag = answer.headers['etag'];
      if (etag === undefined) pages.delete(address);
      else pages.set(address, { etag, page });
      return page;
    },
  };
}

/** Calls the function once, at first use, and returns its promise, also if that rejects. */
export function memoize<Result>(request: () => Promise<Result>): () => Promise<Result> {
  let pending: Promise<Result> | undefined;
  return () => (pending ??= request());
}
