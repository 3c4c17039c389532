import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { connectors } from '../../../src/connectors/registry.ts';
import { rulesOf } from '../../../src/daemon/sources.ts';
import { loadConfig } from '../../../src/platform/config/load.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { openInstallation } from '../../../src/store/installation/installation.ts';
import { writeMeta } from '../../../src/store/meta.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';
import { knowLists } from '../../support/rows/records-route.ts';
import { inFolder } from '../bench.ts';
import { databaseFile, NOWHERE, type Setup, WORKSPACE, writeConfiguration } from '../daemon.ts';
import { REPOSITORY } from '../deliveries.ts';

export interface Size {
  readonly items: number;
  /** Settled, and their bodies purged; spread evenly over the 89 days before. */
  readonly deliveries: number;
  /** Each linked to by ten items, while there are any. */
  readonly tasks: number;
  /** Changes that need approval: nothing is to be sent. */
  readonly held: number;
}

const DAYS_KEPT = 89;
const DAY = 86_400_000;

/** The data folder of one workspace as years leave it, built by plain statements in a database of our own migrations. */
export function withBigInstallation<Result>(size: Size, use: (big: Setup) => Promise<Result>): Promise<Result> {
  return inFolder(async (folder) => {
    mkdirSync(join(folder, 'data'));
    const { config, workspace } = await createWorkspace(folder);
    fill(databaseFile(folder), workspace, size);
    return use({ folder, config });
  });
}

/** After the work of a first start: both lists are read, and all items are evaluated by the rules. */
async function createWorkspace(folder: string): Promise<{ config: string; workspace: number }> {
  const path = writeConfiguration(folder);
  const [config] = loadConfig({ path, env: {}, connectors, apiOverrides }).workspaces;
  if (!config) throw new Error('no workspace is configured');
  const installation = await openInstallation(join(folder, 'data'), { random: systemRandom() });
  const { query } = await installation.store(WORKSPACE);
  await knowLists(query, NOWHERE);
  await writeMeta(query, 'rules.looked_by', rulesOf(config, NOWHERE, connectors).digest ?? '');
  await installation.close();
  return { config: path, workspace: query.workspace };
}

function fill(file: string, workspace: number, { items, deliveries, tasks, held }: Size): void {
  const database = new BetterSqlite(file);
  const settings = ['journal_mode = off', 'synchronous = off', 'cache_size = -1000000', 'locking_mode = exclusive'];
  for (const setting of settings) database.pragma(setting);
  const now = Date.now();
  const run = (statement: string, parameters: object) =>
    database.prepare(statement).run({ workspace, now, ...parameters });
  withoutIndexes(database, () => {
    database.exec('begin');
    run(INBOX, { count: deliveries, apart: (DAYS_KEPT * DAY) / deliveries });
    run(TASKS, { count: tasks, task: JSON.stringify(TASK) });
    run(ITEMS, { count: items, item: JSON.stringify({ item: ITEM, older: {} }) });
    run(RECORDS, { count: items, record: JSON.stringify(RECORD) });
    run(LINKS, { count: Math.min(items, 10 * tasks) });
    run(MENTIONS, { count: Math.min(items, 10 * tasks) });
    run(HELD, { count: held });
    database.exec('commit');
  });
  database.pragma('locking_mode = normal');
  database.pragma('journal_mode = wal');
  database.close();
}

/** They are made anew afterwards: sorting all rows is quicker than finding the place of each. */
function withoutIndexes(database: BetterSqlite.Database, work: () => void): void {
  const indexes = database.prepare("select name, sql from sqlite_schema where type = 'index' and sql is not null");
  const made = indexes.all() as { readonly name: string; readonly sql: string }[];
  const told = database.prepare('select tbl, idx, stat from sqlite_stat1').all() as object[];
  for (const { name } of made) database.exec(`drop index "${name}"`);
  work();
  for (const { sql } of made) database.exec(sql);
  // Dropping an index drops its statistics too.
  database.exec('delete from sqlite_stat1');
  const tell = database.prepare('insert into sqlite_stat1 (tbl, idx, stat) values (@tbl, @idx, @stat)');
  for (const each of told) tell.run(each);
}

const NUMBERS = 'with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < @count)';

const INBOX = `insert into inbox (workspace, connection, delivery_key, source, event, received_at, state, settled_at)
  ${NUMBERS} select @workspace, 'github', printf('%08x-5d1c-11f1-9c3a-0242ac120002', n), 'webhook', 'pull_request',
    cast(@now - (@count - n) * @apart as integer), 'applied', cast(@now - (@count - n) * @apart as integer) + 250
  from numbers`;

const TASK = { taskId: 'task-#', key: 'BUG-#', title: 'Close the pool of tenant #', source: 'manual', status: 'open' };
const TASKS = `insert into tasks (workspace, task_id, key, source, status, fields, seen_at)
  ${NUMBERS} select @workspace, 'task-' || n, 'BUG-' || n, 'manual', 'open', replace(@task, '#', n), @now from numbers`;

/** `~` stands for its number. */
const ITEM = {
  kind: 'pull_request',
  key: `github:${REPOSITORY}/~`,
  connector: 'github',
  identifier: '~',
  repoName: REPOSITORY,
  url: `https://github.com/${REPOSITORY}/pull/~`,
  title: 'Close the pool of tenant ~',
  description: 'What this changes: the pool no longer grows without bound when a tenant is deleted.\n'.repeat(6),
  state: 'merged',
  updatedAt: 1_767_600_000_000,
};
/** Every hundredth is open. */
const ITEMS = `insert into items
    (workspace, key, kind, connector, connection, provider_time, hash, finished, gone, seen_at, fields)
  ${NUMBERS} select @workspace, 'github:${REPOSITORY}/' || n, 'pull_request', 'github', 'github', 1767600000000 + n,
    printf('%028x', n), n % 100 > 0, 0, @now, replace(@item, '~', n) from numbers`;

const RECORD = { provider: 'github', title: 'Close the pool of tenant ~', state: 'merged', repository: REPOSITORY };
const RECORDS = `insert into entities (workspace, entity, kind, item_key, desired, known, known_at, remote_id)
  ${NUMBERS} select @workspace, 'pull_request:github/${REPOSITORY}/' || n, 'pull_request',
    'github:${REPOSITORY}/' || n, replace(@record, '~', n), replace(@record, '~', n), @now, 'record-' || n from numbers`;

const LINKS = `insert into entities (workspace, entity, kind, item_key, task_id, desired, known, known_at)
  ${NUMBERS} select @workspace, 'link:github:${REPOSITORY}/' || n || '>task-' || (1 + n / 10), 'link',
    'github:${REPOSITORY}/' || n, 'task-' || (1 + n / 10), '{}', '{}', @now from numbers`;

const MENTIONS = `insert into mentions (workspace, item_key, name, reason)
  ${NUMBERS} select @workspace, 'github:${REPOSITORY}/' || n, 'BUG-' || (1 + n / 10),
    '{"rule":"key","place":"title","delivery":1}' from numbers`;

const HELD = `insert into outbox
    (workspace, entity, kind, lane, since, due, weight, not_before, state, effect, guard, waiting, error)
  ${NUMBERS} select @workspace, 'link:held/' || n, 'link', 'link', @now, @now + n, 1, 0, 'held', 'removal', 'held', '[]',
    'guard_held: many' from numbers`;
