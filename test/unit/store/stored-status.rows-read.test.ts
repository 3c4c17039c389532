import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deleteAudit, listAudit } from '../../../src/store/access/audit-rows.ts';
import { listRefused } from '../../../src/store/access/refused-requests.ts';
import { heldChanges } from '../../../src/store/changes/held-changes.ts';
import { changesInState } from '../../../src/store/changes/outbox-rows.ts';
import { deleteRequests, requestsOfItems, withOldRequests } from '../../../src/store/changes/requests.ts';
import { storedItemsAfter } from '../../../src/store/connections/unit-states.ts';
import { latestDeliveryIds, searchDeliveries } from '../../../src/store/deliveries/find-deliveries.ts';
import { pendingWorkspaces, quarantinedDeliveries } from '../../../src/store/deliveries/inbox.ts';
import {
  deleteDeliveries,
  deleteTombstones,
  purgeBodies,
  withOldBodies,
  withOldDeliveries,
} from '../../../src/store/installation/deletions.ts';
import { itemsAtUrl, itemsByDisplayName } from '../../../src/store/items/items.ts';
import { deleteQuotaUse, quotaUseByCaller, withOldQuotaUse } from '../../../src/store/quota/ledger.ts';
import { readStatuses } from '../../../src/store/status/stored-status.ts';
import { highestTaskKeys } from '../../../src/store/tasks/stored-tasks.ts';
import { nextSweepStep, SWEEP_START } from '../../../src/store/workspace/workspace-sweeps.ts';
import { type Scope, type Sql, scopeOf } from '../../../src/store/workspace-scope.ts';
import { planOf } from '../../support/cost/plans.ts';
import { isDeep } from '../../support/harness/depth.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';
import { ON_POSTGRES } from '../../support/postgres/store-place.ts';

const NOW = Date.UTC(2026, 10, 20, 12);
/** PostgreSQL scans tables of few workspaces. */
const WORKSPACES = isDeep || ON_POSTGRES ? 2_000 : 400;
/** Rows of each workspace in each large table. */
const OWN = 50;
const ROWS = OWN * WORKSPACES;
const ALL = Array.from({ length: WORKSPACES }, (_, index) => index + 1);
const SOME = ALL.slice(0, 250);

interface Read {
  readonly name: string;
  readonly run: (query: Sql, own: Scope) => Promise<unknown>;
  /** Entries of indexes and rows of tables that it may read. */
  readonly most: number;
}

const before = NOW - 30 * 86_400_000;
/** Retention needs one index lookup for each workspace, and finds nothing old. */
const ONE_LOOKUP_EACH = 8 * WORKSPACES;
/** A page, a sweep or a deletion of one workspace reads what that workspace has, in a few statements. */
const OF_ONE = 12 * OWN;
/** A search by a value that has an index, which finds nothing. */
const LOOKUP = 10;

const READS: readonly Read[] = [
  // Twenty deliveries and twenty changes of each are shown, and its deliveries of the last day are counted.
  {
    name: 'status of 250 workspaces',
    run: (query) => readStatuses(query, SOME, NOW),
    most: SOME.length * (4 * 20 + 4 * 20 + OWN * 4 + 60),
  },
  { name: 'status of one workspace', run: (query) => readStatuses(query, [7], NOW), most: 10 * OWN },
  { name: 'list of 250 workspaces', run: (query) => readStatuses(query, SOME, NOW, 'verdict'), most: SOME.length * 30 },
  { name: 'workspaces with pending deliveries', run: (query) => pendingWorkspaces(query), most: ONE_LOOKUP_EACH },
  { name: 'retention: old bodies', run: (query) => withOldBodies(query, ALL, before), most: ONE_LOOKUP_EACH },
  { name: 'retention: old deliveries', run: (query) => withOldDeliveries(query, ALL, before), most: ONE_LOOKUP_EACH },
  { name: 'retention: old requests', run: (query) => withOldRequests(query, ALL, before), most: ONE_LOOKUP_EACH },
  { name: 'retention: old use of quota', run: (query) => withOldQuotaUse(query, ALL, before), most: ONE_LOOKUP_EACH },
  { name: 'deletion of audit', run: (query) => deleteAudit(query, before, 100), most: 10 },
  { name: 'purge of bodies', run: (_, own) => purgeBodies(own, NOW + 1, 20), most: OF_ONE },
  { name: 'deletion of deliveries', run: (_, own) => deleteDeliveries(own, NOW - 20_000, 20), most: OF_ONE },
  { name: 'deletion of requests', run: (_, own) => deleteRequests(own, NOW - 20_000, 20), most: OF_ONE },
  { name: 'deletion of use of quota', run: (_, own) => deleteQuotaUse(own, NOW - 20_000, 20), most: OF_ONE },
  { name: 'page of deliveries', run: (_, own) => latestDeliveryIds(own, 20), most: OF_ONE },
  {
    name: 'page of quarantined deliveries',
    run: (_, own) => searchDeliveries(own, { states: ['quarantined'] }, { before: undefined, most: 500, wanted: 20 }),
    most: OF_ONE,
  },
  { name: 'quarantine', run: (_, own) => quarantinedDeliveries(own, 20), most: OF_ONE },
  { name: 'page of changes', run: (_, own) => changesInState(own, 'pending', 20), most: OF_ONE },
  { name: 'held changes', run: (_, own) => heldChanges(own, 5), most: OF_ONE },
  { name: 'page of the quota', run: (_, own) => quotaUseByCaller(own, 0), most: OF_ONE },
  { name: 'deletion of tombstones', run: (_, own) => deleteTombstones(own, NOW, 20), most: LOOKUP },
  { name: 'requests of an item', run: (_, own) => requestsOfItems(own, ['k7'], 20), most: LOOKUP },
  { name: 'highest keys of tasks', run: (_, own) => highestTaskKeys(own), most: LOOKUP },
  { name: 'items at an address', run: (_, own) => itemsAtUrl(own, 'https://forge.example/a/1'), most: LOOKUP },
  { name: 'search of items', run: (_, own) => itemsByDisplayName(own, 'acme/web#7'), most: LOOKUP },
  {
    name: 'sweep of a connection',
    run: (_, own) => storedItemsAfter(own, { connection: 'gh', seenBefore: NOW }, ''),
    most: OF_ONE,
  },
  { name: 'step of the workspace sweep', run: (_, own) => nextSweepStep(own, SWEEP_START), most: OF_ONE },
  { name: 'page of refused requests', run: (query) => listRefused(query, { workspaces: null, limit: 20 }), most: 100 },
  {
    name: 'page of the audit',
    run: (query) => listAudit(query, { workspaces: null, since: 0, before: undefined, limit: 20 } as never),
    most: 100,
  },
];

describe(`with ${ROWS} rows of ${WORKSPACES} workspaces`, () => {
  const statements: string[] = [];
  let store: OpenedStore;

  beforeAll(async () => {
    store = await openStore({ file: ':memory:', onStatement: (statement) => statements.push(statement) });
    await fill(store.database);
  });
  afterAll(() => store.close());

  it.each(READS)('$name reads at most its limit of rows', async ({ run, most }) => {
    if (ON_POSTGRES) {
      expect(await rowsRead(store.database, run)).toBeLessThanOrEqual(most);
      return;
    }
    statements.length = 0;
    await run(store.database, scopeOf(store.database, 7));
    for (const statement of statements.filter((each) => /^(select|with|update|delete)\b/.test(each))) {
      const { scanned, text } = await planOf(store.database, statement);
      expect(
        scanned.filter((table) => LARGE.includes(table)),
        `${statement}\n${text}`,
      ).toEqual([]);
      if (most < OWN) expect(text).not.toMatch(ALL_OF_ONE);
    }
  });
});

/** How SQLite says that it reads all rows of a workspace. */
const ALL_OF_ONE = /USING (?:COVERING )?INDEX \w+ \(workspace=\?\)$/m;
const LARGE = ['inbox', 'items', 'entities', 'outbox', 'requests', 'quota_use', 'audit', 'tasks', 'own', 'last'];

/** PostgreSQL's own count of what is read from tables and indexes. Changes are taken back. */
async function rowsRead(database: Sql, run: Read['run']): Promise<number> {
  let read = 0;
  const undo = new Error('undo');
  await database
    .transaction()
    .execute(async (transaction) => {
      const before = await tuplesOf(transaction);
      await run(transaction, scopeOf(transaction, 7));
      read = (await tuplesOf(transaction)) - before;
      throw undo;
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error;
    });
  return read;
}

/** Rows that the session has read since its last report to the server. Within a transaction it reports nothing. */
async function tuplesOf(transaction: Sql): Promise<number> {
  const { rows } = await sql<{
    read: number;
  }>`select coalesce(sum(pg_stat_get_xact_tuples_returned(oid)), 0)::float8 as read
    from pg_class where relkind in ('r', 'i') and relnamespace = current_schema()::regnamespace`.execute(transaction);
  return rows[0]?.read ?? 0;
}

/** Adds equal rows to each workspace: 50 deliveries, items, records, changes, requests, and quarters of use. */
async function fill(database: Sql): Promise<void> {
  const numbers = sql.raw(
    ON_POSTGRES
      ? `(select n from generate_series(0, ${ROWS - 1}) as n) as numbers`
      : `(with recursive numbers(n) as (select 0 union all select n + 1 from numbers where n < ${ROWS - 1}) select n from numbers)`,
  );
  const own = sql.raw(`1 + n % ${WORKSPACES}`);
  const at = sql.raw(`${NOW} - n`);
  await sql`delete from workspaces`.execute(database);
  await sql`insert into workspaces (id, name) select ${own}, 'w' || n from ${numbers} where n < ${sql.raw(`${WORKSPACES}`)}`.execute(
    database,
  );
  await sql`insert into inbox (workspace, connection, delivery_key, source, event, received_at, state, settled_at, body)
    select ${own}, case when n % 3 = 0 then 'gh' else 'jira' end, 'k' || n, 'webhook', 'x', ${at}, 'applied', ${at}, null
    from ${numbers}`.execute(database);
  await sql`insert into items (workspace, key, kind, connector, connection, hash, finished, gone, fields, provider_time, seen_at)
    select ${own}, 'k' || n, 'pull_request', 'github', 'gh', '', 0, 0, '{}', 1, 1 from ${numbers}`.execute(database);
  await sql`insert into entities (workspace, entity, kind, item_key, desired)
    select ${own}, 'pull_request:k' || n, 'pull_request', 'k' || n, '{}' from ${numbers}`.execute(database);
  await sql`insert into outbox (workspace, entity, kind, lane, since, due, weight, not_before, state, waiting)
    select ${own}, 'pull_request:k' || n, 'pull_request', 'mirror', ${at}, ${at}, 1, 0, 'pending', '[]' from ${numbers}`.execute(
    database,
  );
  await sql`insert into requests (workspace, id, entity, kind, action, lane, since, due, asked_at, slot_at, sent_at, completed_at, outcome, attempt, deliveries)
    select ${own}, n, 'pull_request:k' || n, 'pull_request', 'record', 'mirror', ${at}, ${at}, ${at}, ${at}, ${at}, ${at}, 'done', 1, '[]' from ${numbers}`.execute(
    database,
  );
  await sql`insert into quota_use (workspace, since, caller, requests, refused) select ${own}, ${at}, 'sync', 1, 0 from ${numbers}`.execute(
    database,
  );
  if (!ON_POSTGRES) return;
  await database.connection().execute(async (connection) => {
    // The sample has all rows, so that the plans are the same in each run.
    await sql`set default_statistics_target = 1000`.execute(connection);
    await sql`vacuum analyze`.execute(connection);
  });
}
