import { type Kysely, sql } from 'kysely';
import { dialectOf } from '../../platform/database/dialect.ts';

/** The number of rows of the table, and how many of them share the first column of an index, its first two columns, and so on. */
type Shape = readonly number[];

/** Shapes by table and index. */
type Shapes = Readonly<Record<string, Readonly<Record<string, Shape>>>>;

/** Shapes in a large installation: ten workspaces of a hundred thousand items each. */
const KEYED: Shape = [1_000_000, 100_000, 1];
const FEW: Shape = [10_000, 100, 1];

/**
 * The statistics that SQLite's planner reads about each index, in place of those that `ANALYZE` would count. A migration that adds
 * an index adds its shape.
 *
 * Without statistics SQLite assumes that ten rows share the first column of an index, which is the workspace here. It would then read
 * all rows of a workspace to find a hundred by their ids. Counted statistics would make plans depend on when they were counted;
 * these make plans the same everywhere, from the first row on.
 */
const SHAPES: Shapes = {
  inbox: {
    sqlite_autoindex_inbox_1: [1_000_000, 100_000, 25_000, 1],
    inbox_pending: [10_000, 1_000, 1],
    inbox_quarantined: [1_000, 100, 1],
    inbox_received: [1_000_000, 100_000, 10, 8],
    inbox_bodies: [300_000, 30_000, 10],
  },
  fetches: {
    sqlite_autoindex_fetches_1: [10_000, 1_000, 1],
    fetches_due: [10_000, 1_000, 500, 2],
    fetches_later: [10_000, 1_000, 10],
  },
  polls: { sqlite_autoindex_polls_1: [10_000, 100, 20, 1] },
  sweeps: { sqlite_autoindex_sweeps_1: [10_000, 100, 20, 1] },
  backfills: { sqlite_autoindex_backfills_1: [10_000, 100, 20, 1] },
  scope_names: { sqlite_autoindex_scope_names_1: [10_000, 100, 20, 1] },
  items: {
    sqlite_autoindex_items_1: KEYED,
    items_gone: [10_000, 1_000, 10],
    items_url: [1_000_000, 100_000, 2, 1],
    items_called: [1_000_000, 100_000, 2, 1],
    items_open: [100_000, 10_000, 1],
    items_unverified: [10_000, 1_000, 500, 250, 1],
  },
  mentions: { sqlite_autoindex_mentions_1: [1_000_000, 100_000, 3, 1], mentions_name: [1_000_000, 100_000, 3] },
  item_names: {
    sqlite_autoindex_item_names_1: [1_000_000, 100_000, 3, 1],
    item_names_name: [1_000_000, 100_000, 2],
    item_names_place: [1_000_000, 100_000, 1_000],
  },
  tasks: {
    sqlite_autoindex_tasks_1: KEYED,
    tasks_by_key: KEYED,
    tasks_by_source: [1_000_000, 100_000, 2],
    tasks_by_number: [1_000_000, 100_000, 50_000, 1],
  },
  entities: {
    sqlite_autoindex_entities_1: KEYED,
    entities_item: [1_000_000, 100_000, 2],
    entities_task: [1_000_000, 100_000, 3],
    entities_removed: [1_000, 100, 1],
    entities_gone: [10_000, 1_000, 2],
  },
  outbox: {
    sqlite_autoindex_outbox_1: [100_000, 10_000, 1],
    outbox_due: [100_000, 10_000, 3_000, 2],
    outbox_next: [100_000, 10_000, 3_000, 1_000, 2, 1, 1],
    outbox_turn: [100_000, 10_000, 3_000, 1_000, 10, 2, 1],
    outbox_age: [100_000, 10_000, 3_000, 1_000, 2],
    outbox_effect: [100_000, 10_000, 5_000, 2_000, 1_000, 500],
  },
  notices: { sqlite_autoindex_notices_1: [100_000, 10_000, 2, 1], notices_waiting: [100_000, 10_000, 3_000, 10] },
  workspace_sweeps: { sqlite_autoindex_workspace_sweeps_1: FEW },
  workspace_listed: { sqlite_autoindex_workspace_listed_1: KEYED },
  workspace_findings: { sqlite_autoindex_workspace_findings_1: [10_000, 1_000, 100, 2, 1] },
  ledger: { sqlite_autoindex_ledger_1: [10_000, 1_000, 1] },
  meta: { sqlite_autoindex_meta_1: FEW },
  job_runs: { sqlite_autoindex_job_runs_1: FEW },
  gateway_tokens: { sqlite_autoindex_gateway_tokens_1: FEW, sqlite_autoindex_gateway_tokens_2: FEW },
  counts: { sqlite_autoindex_counts_1: [10_000, 50, 10, 1] },
  quota_use: { sqlite_autoindex_quota_use_1: [1_000_000, 10_000, 10, 1] },
  requests: {
    sqlite_autoindex_requests_1: [100_000, 10_000, 1],
    requests_item: [100_000, 10_000, 5, 1],
    requests_completed: [100_000, 10_000, 1],
  },
  refused_requests: {
    sqlite_autoindex_refused_requests_1: [500, 1],
    refused_last: [500, 1],
    refused_workspace: [500, 20, 1],
  },
  audit: { audit_at: [100_000, 1], audit_workspace: [100_000, 1_000, 1] },
};

/** Creates and fills the tables of SQLite's planner. They apply to statements that are prepared afterwards. PostgreSQL counts by itself. */
export async function createStatistics(db: Kysely<unknown>): Promise<void> {
  if (dialectOf(db) !== 'sqlite') return;
  // The first analysis creates the planner's tables. This table is empty, so that nothing is read.
  await sql`analyze workspaces`.execute(db);
  await addStatistics(db, SHAPES);
}

/** Adds the shapes of further indexes. */
export async function addStatistics(db: Kysely<unknown>, shapes: Shapes): Promise<void> {
  if (dialectOf(db) !== 'sqlite') return;
  const rows = Object.entries(shapes).flatMap(([table, indexes]) =>
    Object.entries(indexes).map(([index, shape]) => ({ tbl: table, idx: index, stat: shape.join(' ') })),
  );
  await db
    .withTables<{ sqlite_stat1: { tbl: string; idx: string; stat: string } }>()
    .insertInto('sqlite_stat1')
    .values(rows)
    .execute();
  await sql`analyze sqlite_schema`.execute(db);
}
