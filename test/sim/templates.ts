import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import { createWorkspaceService } from '../../src/reference-service/service.ts';
import { openInstallation } from '../../src/store/installation/installation.ts';
import type { Sql } from '../../src/store/workspace-scope.ts';
import { chanceOf, randomOf } from '../bench/quota/references/chance.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { folderOfTests } from '../support/harness/memory-disk.ts';
import { addOldAudit } from './checker-store.ts';

export type Templates = Awaited<ReturnType<typeof createTemplates>>;

/** Databases with all tables, and what somebody did long ago: to make them takes longer than many a run. */
export async function createTemplates() {
  const folder = makeFolder();
  const random = randomOf(chanceOf(0, 'templates'));
  const clock = createTravellingClock();
  const installation = await openInstallation(folder, { random });
  const keys = await readKeys(installation.query);
  await addOldAudit(installation, clock.now());
  await installation.close();
  const file = join(folder, 'service.db');
  const quota = { requests: 200, window: 900_000, burst: 40, burstWindow: 60_000 };
  const service = await createWorkspaceService({ file, clock, random, logger: silentLogger, quota });
  await service.startCredentials();
  await service.close();
  return {
    installation: (place: string) => copyFileSync(join(folder, 'worksync.db'), join(place, 'worksync.db')),
    service(place: string) {
      for (const end of ['', '.key']) copyFileSync(file + end, place + end);
    },
    keys,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export function makeFolder(): string {
  return mkdtempSync(join(folderOfTests(), 'worksync-sim-'));
}

/** How many rows each table holds: by their state, where they have one; and in how many places of them anything stands. */
export async function countRows(query: Sql): Promise<ReadonlyMap<string, string>> {
  const { rows: tables } = await sql<{ name: string }>`
    select name from sqlite_schema
    where type = 'table' and name not like 'sqlite%' and name not like 'kysely%' order by name`.execute(query);
  const counts = new Map<string, string>();
  for (const { name } of tables) counts.set(name, await countOf(query, name));
  return counts;
}

async function countOf(query: Sql, table: string): Promise<string> {
  const { rows: columns } = await sql<{ name: string }>`select name from pragma_table_info(${table})`.execute(query);
  const state = sql.raw(columns.some(({ name }) => name === 'state') ? 'state' : `''`);
  const filled = columns.map(({ name }) => sql`count(${sql.ref(name)})`);
  const { rows } = await sql<{ state: string; count: number; filled: number }>`
    select ${state} as state, count(*) as count, ${sql.join(filled, sql` + `)} as filled
    from ${sql.table(table)} group by 1 order by 1`.execute(query);
  return (
    rows
      .map(({ state: name, count, filled: places }) => `${count} ${name} (${places})`.replace('  ', ' '))
      .join(', ') || '0'
  );
}

/** By table, the sets of columns of which each names one row. */
export type Keys = ReadonlyMap<string, readonly (readonly string[])[]>;

async function readKeys(query: Sql): Promise<Keys> {
  const { rows } = await sql<{ readonly of: string; readonly by: string; readonly name: string }>`
    select m.name as "of", '' as "by", p.name as name
      from sqlite_master m, pragma_table_info(m.name) p where m.type = 'table' and p.pk > 0
    union all
    select m.name, i.name, c.name
      from sqlite_master m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
      where m.type = 'table' and i."unique" = 1 and i.partial = 0`.execute(query);
  const columnsOf = (keys: typeof rows) => [...Map.groupBy(keys, ({ by }) => by).values()];
  return new Map(
    [...Map.groupBy(rows, ({ of }) => of)].map(([table, keys]) => [
      table,
      columnsOf(keys).map((columns) => columns.map(({ name }) => name)),
    ]),
  );
}

/** Whether a change names each row that it is about by a whole key. */
export function namesRows(text: string, keys: Keys): boolean {
  const [, table = '', condition = ''] = /^(?:update|delete from) "(\w+)".*? where (.*)$/is.exec(text) ?? [];
  const named = new Set(
    [...condition.matchAll(/"(\w+)" (?:= \?|in \()/g), ...condition.matchAll(/\(((?:"\w+"(?:, )?)+)\) in \(/g)].flatMap(
      ([, columns = '']) => columns.match(/\w+/g) ?? [],
    ),
  );
  return keys.get(table)?.some((columns) => columns.every((column) => named.has(column))) === true;
}
