import { sql } from 'kysely';
import { SyncError } from '../../../src/model/errors.ts';
import type { Installation } from '../../../src/store/installation/installation.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import { openTestInstallation } from '../harness/store.ts';
import { ON_POSTGRES } from '../postgres/store-place.ts';

/** Writes what is there before, and gives the work that is done on it. */
export type GetReady = (store: Store) => Promise<() => Promise<unknown>>;

/** Ways in which a process ends or loses its lease while it works. */
type Outcome =
  | { readonly kind: 'lives' }
  /** Before so many commits, the first one included, are on the disk. */
  | { readonly kind: 'dies'; readonly commit: number }
  | { readonly kind: 'lost the workspace' };

/**
 * Returns the rows that unfinished work leaves, by table: none, if the work is one transaction of the workspace's owner.
 * The work is done by a process that dies at each of its commits in turn, and by one that has lost the workspace. Throws if the
 * work changes nothing at all.
 */
export async function remainsOf(getReady: GetReady): Promise<readonly string[]> {
  const whole = await rowsAround(getReady, { kind: 'lives' });
  if (changedIn(whole).length === 0) throw new Error('the work changes nothing');
  const remains: string[] = [];
  for (let commit = 1; commit <= whole.commits; commit++) {
    const changed = changedIn(await rowsAround(getReady, { kind: 'dies', commit }));
    remains.push(...changed.map((table) => `${table}, after a death at commit ${commit} of ${whole.commits}`));
  }
  return [...remains, ...(await remainsOfLost(getReady))];
}

/** Like `remainsOf`, for work of several transactions: only the process that has lost the workspace is tried. */
export async function remainsOfLost(getReady: GetReady): Promise<readonly string[]> {
  const changed = changedIn(await rowsAround(getReady, { kind: 'lost the workspace' }));
  return changed.map((table) => `${table}, of one that has lost the workspace`);
}

type Rows = Readonly<Record<string, readonly string[]>>;

export function changedIn({ before, after }: { readonly before: Rows; readonly after: Rows }): string[] {
  return Object.keys(after).filter((table) => after[table]?.join('\n') !== before[table]?.join('\n'));
}

async function rowsAround(getReady: GetReady, outcome: Outcome) {
  let isReady = false;
  let commits = 0;
  const steps = {
    reached(_kind: string, edge: string) {
      if (!isReady || edge === 'after') return;
      commits++;
      // The dead write nothing any more.
      if (outcome.kind === 'dies' && commits >= outcome.commit) throw new Error('the process is dead');
    },
  };
  const installation = await openTestInstallation({ file: ':memory:', steps });
  try {
    const store = await installation.store('test', async () => {
      if (isReady && outcome.kind === 'lost the workspace') throw new SyncError('lease_lost', 'it was taken over');
    });
    const work = await getReady(store);
    const before = await allRows(installation);
    isReady = true;
    // The work may report that it failed.
    if (outcome.kind === 'lives') await work();
    else await work().catch(() => undefined);
    isReady = false;
    return { before, after: await allRows(installation), commits };
  } finally {
    await installation.close();
  }
}

export async function allRows({ query }: Installation): Promise<Rows> {
  const names = ON_POSTGRES
    ? sql<{ name: string }>`select tablename as name from pg_tables where schemaname = current_schema()`
    : sql<{ name: string }>`select name from sqlite_master where type = 'table'`;
  const all: Record<string, readonly string[]> = {};
  for (const { name } of (await names.execute(query)).rows) {
    const { rows } = await sql`select * from ${sql.table(name)}`.execute(query);
    all[name] = rows.map((row) => JSON.stringify(row)).toSorted();
  }
  return all;
}
