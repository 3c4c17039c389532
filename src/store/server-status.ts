import { type CreationTrials, fieldsOff } from './creation-trials.ts';
import type { RecordsRoute } from './records-route.ts';
import type { OptionalRoute, RouteStates } from './route-states.ts';
import { serverFactsOf } from './server-facts.ts';
import type { Sql } from './workspace-scope.ts';

/** What a workspace's server is known not to do. Plain JSON. */
export interface ServerStatus {
  /** Whether it records pull requests, and what it said last where it does not. */
  readonly records: { readonly state: RecordsRoute['state']; readonly error: string | null };
  /** Routes that are switched off because it refuses them. Epoch milliseconds. */
  readonly routesOff: readonly { readonly route: OptionalRoute; readonly status: number; readonly until: number }[];
  /** Fields that it refuses in creations, and that are left out. */
  readonly fieldsOff: readonly string[];
}

export async function serversOf(
  query: Sql,
  workspaces: readonly number[],
  now: number,
): Promise<(workspace: number) => ServerStatus> {
  const facts = await serverFactsOf(query, workspaces);
  return (workspace) => {
    const { records, routes, creation } = facts(workspace);
    const { state = 'unknown', error = null } = (records ?? {}) as Partial<RecordsRoute>;
    const off = Object.entries((routes ?? {}) as RouteStates).flatMap(([route, { refused }]) =>
      refused?.offUntil !== undefined && refused.offUntil > now
        ? [{ route: route as OptionalRoute, status: refused.status, until: refused.offUntil }]
        : [],
    );
    return {
      records: { state, error },
      routesOff: off,
      fieldsOff: creation === undefined ? [] : fieldsOff(creation as CreationTrials, now),
    };
  };
}
