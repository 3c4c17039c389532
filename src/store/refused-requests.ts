import type { Sql } from './workspace-scope.ts';

/** Requests that a webhook address or the gateway refused; like ones are one. Times are epoch milliseconds. */
export interface RefusedRequest {
  /** What makes two of them alike: see `web/refusal-log.ts`. */
  readonly key: string;
  readonly workspace: string | null;
  readonly connection: string | null;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly code: string;
  readonly address: string;
  /** Names and values, without secrets. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

/** Rows of refused requests: as many of known workspaces as of none stay, where there are more of both. */
const MOST = 500;

/** Adds what was refused since the last time to the rows of its like, and forgets the oldest beyond the limit. */
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
  const known = await countOf(query, 'is not');
  const unknown = await countOf(query, 'is');
  await forgetBeyond(query, 'is not', Math.max(MOST / 2, MOST - unknown), known);
  await forgetBeyond(query, 'is', Math.max(MOST / 2, MOST - known), unknown);
}

type Pool = 'is' | 'is not';

async function countOf(query: Sql, pool: Pool): Promise<number> {
  const { count } = await query
    .selectFrom('refused_requests')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('workspace', pool, null)
    .executeTakeFirstOrThrow();
  return Number(count);
}

async function forgetBeyond(query: Sql, pool: Pool, most: number, count: number): Promise<void> {
  if (count <= most) return;
  const oldest = query
    .selectFrom('refused_requests')
    .select('key')
    .where('workspace', pool, null)
    .orderBy('last_at')
    .orderBy('key')
    .limit(count - most);
  await query.deleteFrom('refused_requests').where('key', 'in', oldest).execute();
}

/** The latest first; of these workspaces only, by name, unless it is null. */
export async function listRefused(
  query: Sql,
  { workspaces, limit }: { readonly workspaces: readonly string[] | null; readonly limit: number },
): Promise<readonly RefusedRequest[]> {
  const rows = await query
    .selectFrom('refused_requests')
    .selectAll()
    .orderBy('last_at', 'desc')
    .orderBy('key')
    .execute();
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

/** The last refused webhook of a connection. */
export interface RefusedWebhook {
  readonly at: number;
  readonly status: number;
  readonly code: string;
  /** How often the same was refused. */
  readonly count: number;
}

/** Of all connections of these workspaces, which are numbers here. */
export async function lastRefusedWebhooks(
  query: Sql,
  workspaces: readonly number[],
): Promise<readonly (RefusedWebhook & { readonly workspace: number; readonly connection: string })[]> {
  const rows = await query
    .selectFrom('workspaces')
    .innerJoin('refused_requests', 'refused_requests.workspace', 'workspaces.name')
    .select(['workspaces.id', 'connection', 'status', 'code', 'count', 'last_at'])
    .where('connection', 'is not', null)
    .where('workspaces.id', 'in', workspaces)
    .execute();
  const oldestFirst = rows.toSorted((one, other) => one.last_at - other.last_at);
  const latest = new Map(oldestFirst.map((row) => [`${row.id} ${row.connection}`, row]));
  return [...latest.values()].map(({ id, connection, last_at: at, status, code, count }) => ({
    ...{ workspace: id, connection: connection as string },
    ...{ at, status, code, count },
  }));
}

/** Those of a workspace whose rows are deleted. */
export async function forgetRefused(query: Sql, workspace: string): Promise<void> {
  await query.deleteFrom('refused_requests').where('workspace', '=', workspace).execute();
}
