import { z } from 'zod';
import type { ConnectionDeps } from '../connector.ts';
import { createListing } from '../kit/cached-reads.ts';
import { readable } from '../kit/payload.ts';
import type { Rest } from '../kit/rest.ts';
import * as schema from './schema.ts';

const untold = z.object({ status: z.object({ id: z.int(), is_closed: z.undefined().optional() }) });

/** Returns a reader of the statuses of issues; it returns undefined if all of them report whether they are closed. */
export function createStatuses(api: Rest, { clock }: ConnectionDeps) {
  let known: readonly schema.Status[] = [];
  const load = async (signal: AbortSignal) => {
    known = await readStatuses(api, signal);
    return known;
  };
  let listing = createListing(clock, load);
  return async (issues: readonly unknown[], signal: AbortSignal) => {
    const wanted = issues.flatMap((issue) => readable(untold, issue)?.status.id ?? []);
    if (wanted.length === 0) return undefined;
    // A new status is not in an older list.
    if (!wanted.every((id) => known.some((status) => status.id === id))) listing = createListing(clock, load);
    return await listing(signal);
  };
}

export async function readStatuses(api: Rest, signal: AbortSignal): Promise<readonly schema.Status[]> {
  return (await api.read(schema.allStatuses, '/issue_statuses.json', {}, signal)).content.issue_statuses;
}
