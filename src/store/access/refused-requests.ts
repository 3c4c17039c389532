import type { NotNull } from 'kysely';
import { countRows, type Sql } from '../workspace-scope.ts';

/** Similar requests that a webhook address or the gateway refused, as one entry. Times are epoch milliseconds. */
export interface RefusedRequest {
  /** Digest of the properties that similar requests share; see `web/access/refusal-log.ts`. */
  readonly key: string;
  readonly workspace: string | null;
  readonly connection: string | null;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly code: string;
  readonly address: string;
  /** Headers of the latest request, without secrets. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

/** The maximum number of rows. Each of the two groups, with and without a workspace, may always use a half of it. */
const MAX_ROWS = 500;

/** Adds the counts of refused requests to the rows of similar ones, and deletes the oldest rows above the maximum. */
export async function storeRefused(query: Sql, refused: readonly RefusedRequest[]): Promise<void> {
  for (const { firstAt, lastAt, headers, ...row } of refused) {
    await query
      .insertInto('refused_requests')
      .values({ ...row, headers: JSON.stringify(headers), first_at: firstAt, last_at: lastAt })
      .onConflict((conflict) =>
        conflict.column('key').doUpdateSet((update) => ({
          headers: JSON.stringify(headers),
          count: update('refused_requests.count', '+', row.count),
          last_at: lastAt,
        })),
      )
      .execute();
  }
  const known = await countRows(refusedWhere(query, 'is not'));
  const unknown = await countRows(refusedWhere(query, 'is'));
  await deleteOldest(query, 'is not', known - Math.max(MAX_ROWS / 2, MAX_ROWS - unknown));
  await deleteOldest(query, 'is', unknown - Math.max(MAX_ROWS / 2, MAX_ROWS - known));
}

/** The comparison of the column `workspace` with null. */
type NullTest = 'is' | 'is not';

function refusedWhere(query: Sql, test: NullTest) {
  return query.selectFrom('refused_requests').where('workspace', test, null);
}

async function deleteOldest(query: Sql, test: NullTest, count: number): Promise<void> {
  if (count <= 0) return;
  const oldest = refusedWhere(query, test).select('key').orderBy('last_at').orderBy('key').limit(count);
  await query.deleteFrom('refused_requests').where('key', 'in', oldest).execute();
}

/** Lists refused requests, the latest first. @param workspaces names; null: all, including requests to no workspace */
export async function listRefused(
  query: Sql,
  { workspaces, limit }: { readonly workspaces: readonly string[] | null; readonly limit: number },
): Promise<readonly RefusedRequest[]> {
  const all = query.selectFrom('refused_requests').selectAll();
  const rows = await all.orderBy('last_at', 'desc').orderBy('key').execute();
  return rows
    .filter(({ workspace }) => workspaces === null || (workspace !== null && workspaces.includes(workspace)))
    .slice(0, limit)
    .map(({ headers, first_at: firstAt, last_at: lastAt, ...row }) => ({
      ...row,
      headers: JSON.parse(headers) as RefusedRequest['headers'],
      firstAt,
      lastAt,
    }));
}

/** The last refused webhook request of a connection. */
export interface RefusedWebhook {
  readonly at: number;
  readonly status: number;
  readonly code: string;
  /** Number of similar refused requests. */
  readonly count: number;
}

/** Returns the last refused webhook request of each connection. @param workspaces numbers */
export async function lastRefusedWebhooks(
  query: Sql,
  workspaces: readonly number[],
): Promise<readonly (RefusedWebhook & { readonly workspace: number; readonly connection: string })[]> {
  const rows = await query
    .selectFrom('workspaces')
    .innerJoin('refused_requests', 'refused_requests.workspace', 'workspaces.name')
    .select(['workspaces.id as workspace', 'connection', 'status', 'code', 'count', 'last_at as at'])
    .where('connection', 'is not', null)
    .$narrowType<{ connection: NotNull }>()
    .where('workspaces.id', 'in', workspaces)
    .execute();
  const oldestFirst = rows.toSorted((one, other) => one.at - other.at);
  return [...new Map(oldestFirst.map((row) => [`${row.workspace} ${row.connection}`, row])).values()];
}

/** Deletes the refused requests of a workspace. */
export async function forgetRefused(query: Sql, workspace: string): Promise<void> {
  await query.deleteFrom('refused_requests').where('workspace', '=', workspace).execute();
}
