import { asSyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { Clock } from '../../lib/clock.ts';

/** How long a list is cached, milliseconds: what patterns match changes seldom. */
const REFRESH_AFTER = 12 * 60_000;

/**
 * A list that is cached, and read again when it is old. Where a passing failure prevents that, the caller gets the old
 * list, and the next call tries again.
 */
export function createListing<Element>(
  clock: Clock,
  load: (signal: AbortSignal) => Promise<readonly Element[]>,
  refreshAfter = REFRESH_AFTER,
): (signal: AbortSignal) => Promise<readonly Element[]> {
  let held: { list: readonly Element[]; until: number } | undefined;
  return async (signal) => {
    if (held && clock.monotonic() < held.until) return held.list;
    try {
      held = { list: await load(signal), until: clock.monotonic() + refreshAfter };
    } catch (thrown) {
      if (!held || asSyncError(thrown).verdict !== 'retry' || signal.aborted) throw thrown;
    }
    return held.list;
  };
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
