import { sql } from 'kysely';
import type { Action, ChangeState, Effect, EntityKind, Lane, RequestOutcome } from '../../model/change.ts';
import type { DeliveryOrigin, DeliveryState } from '../../model/delivery.ts';
import type { Finding } from '../../model/foreign-edits.ts';
import type { Item } from '../../model/item.ts';
import {
  bigint,
  blob,
  double,
  integer,
  numbered,
  type RowOf,
  type Shape,
  type Table,
  table,
  text,
} from '../../platform/database/database-schema.ts';
import {
  IMPORTED,
  nameOfItem,
  numberOfKey,
  PREFIX,
  QUEUE,
  reasonUnfinished,
  SEND_QUEUE,
  urlOfItem,
} from './column-expressions.ts';
import { INSTALLATION_TABLES, type InstallationTables } from './installation-tables.ts';

/**
 * A read that ends the wait of a change.
 *
 *   links  the links of the task, before an addition that could duplicate one of them.
 *   check  the links or the list of tasks, after a refusal. If the request is refused again, the refusal is right.
 */
export type AwaitedRead = 'links' | 'check';

/** The parts of the outbox whose changes are sent in the order of their due times. */
export const QUEUES = ['read', 'link', 'finished_link', 'status', 'mirror', 'finished_mirror', 'backfill'] as const;
export type Queue = (typeof QUEUES)[number];

/** Shapes in a large installation: ten workspaces of a hundred thousand items each. */
const KEYED: Shape = [1_000_000, 100_000, 1];
const FEW: Shape = [10_000, 100, 1];
const PER_UNIT: Shape = [10_000, 100, 20, 1];

/**
 * The tables whose rows belong to workspaces. They are reached through a `Scope` only. Each also has the column `workspace`, the first
 * one of its key and its indexes, so that the rows of one workspace are one range of each. Times are epoch milliseconds by the wall
 * clock unless a comment says otherwise. Rows are copied and deleted in this order.
 */
export const WORKSPACE_TABLES = {
  /** Single facts by name, for example when the first complete reads were done. */
  meta: table({ name: text(), value: text() }, { key: ['name'], keyShapes: [FEW] }),

  /** The time from which the next run of each scheduled job is computed; see `platform/lib/scheduler.ts`. */
  job_runs: table({ job: text(), last_at: bigint() }, { key: ['job'], keyShapes: [FEW] }),

  /** Tokens by which jobs and scripts use the gateway in place of the workspace's API key. */
  gateway_tokens: table(
    {
      id: text(),
      /** SHA-256 of the token. */
      digest: text(),
      description: text(),
      created_at: bigint(),
      revoked_at: bigint().nullable(),
    },
    { key: ['id'], unique: { gateway_tokens_digest: ['digest'] }, keyShapes: [FEW, FEW] },
  ),

  inbox: table(
    {
      /** The delivery number, in the order of arrival over all workspaces. */
      id: numbered(),
      connection: text(),
      /** Unique within a connection: the vendor's delivery id, or the SHA-256 of the bytes. */
      delivery_key: text(),
      source: text<DeliveryOrigin>(),
      event: text(),
      received_at: bigint(),
      state: text<DeliveryState>(),
      /** Why it was ignored or quarantined. */
      reason: text().nullable(),
      attempts: integer().defaultTo(0),
      settled_at: bigint().nullable(),
      /** Original length of the body in bytes if it is compressed; null if it is stored as received. */
      unpacked_length: integer().nullable(),
      /**
       * Null after the retention time. Read and written only through `packBody`, `packBodyAsync` and `unpackBody`. The last column, so
       * that reading the small ones does not walk the overflow pages of a large body.
       */
      body: blob().nullable(),
    },
    {
      unique: { inbox_key: ['connection', 'delivery_key'] },
      keyShapes: [[1_000_000, 100_000, 25_000, 1]],
      indexes: {
        inbox_pending: { columns: ['id'], where: sql`"state" = 'pending'`, shape: [10_000, 1_000, 1] },
        inbox_quarantined: { columns: ['id'], where: sql`"state" = 'quarantined'`, shape: [1_000, 100, 1] },
        inbox_received: { columns: ['received_at', 'source'], shape: [1_000_000, 100_000, 10, 8] },
        // Rows whose body is still to be purged. A row enters this index when it is settled, so that appending stays cheap.
        inbox_bodies: {
          columns: ['settled_at'],
          where: sql`"settled_at" is not null and "body" is not null`,
          shape: [300_000, 30_000, 10],
        },
      },
    },
  ),

  /** Objects to fetch from a provider. */
  fetches: table(
    {
      reference: text(),
      connection: text(),
      since: bigint(),
      not_before: bigint(),
      attempts: integer().defaultTo(0),
      error: text().nullable(),
      /** The delivery that requested the fetch, for correlation. */
      delivery_id: integer(),
      /** Number of requests for this fetch. A fetch settles the row only if the number is still that of its start. */
      asks: integer().defaultTo(1),
    },
    {
      key: ['reference'],
      keyShapes: [[10_000, 1_000, 1]],
      // A lost sweep or a new rule may request tens of thousands of fetches: these indexes find the next one without reading all.
      indexes: {
        fetches_due: { columns: ['connection', 'since'], shape: [10_000, 1_000, 500, 2] },
        fetches_later: { columns: ['not_before'], shape: [10_000, 1_000, 10] },
      },
    },
  ),

  polls: table(
    {
      connection: text(),
      unit: text(),
      watermark: text().nullable(),
      /** The unfinished walk as JSON: `Walk` of `unit-states.ts`. */
      walk: text().nullable(),
      /** Validator of the first page of the last complete walk. */
      etag: text().nullable(),
      /** SHA-256 of the last complete walk if that was a single page. */
      digest: text().nullable(),
      completed_at: bigint().nullable(),
      error: text().nullable(),
      failed_at: bigint().nullable(),
    },
    { key: ['connection', 'unit'], keyShapes: [PER_UNIT] },
  ),

  /** Sweeps of connections, one row per unit. */
  sweeps: table(
    {
      connection: text(),
      unit: text(),
      /** The last complete sweep, the number of items it listed, and of known items it lacked, which were then fetched. */
      completed_at: bigint().nullable(),
      listed: integer().nullable(),
      asked: integer().nullable(),
      error: text().nullable(),
      failed_at: bigint().nullable(),
    },
    { key: ['connection', 'unit'], keyShapes: [PER_UNIT] },
  ),

  /** One row per unit of a backfill; see `backfills.ts`. */
  backfills: table(
    {
      connection: text(),
      unit: text(),
      /** RFC 3339; null: items of any age. */
      since: text().nullable(),
      /** The page to read next; null: the first page. */
      page: text().nullable(),
      /** Numbers of pages and items that were read. */
      pages: integer().defaultTo(0),
      items: integer().defaultTo(0),
      /** Number of items according to the vendor. */
      total: integer().nullable(),
      started_at: bigint(),
      /** Null until all pages are read. */
      finished_at: bigint().nullable(),
      /** Code and message of the failure that ended the backfill or delays it. */
      error: text().nullable(),
      /** Number of consecutive failures, and the time of the next attempt. */
      attempts: integer().defaultTo(0),
      not_before: bigint().defaultTo(0),
    },
    { key: ['connection', 'unit'], keyShapes: [PER_UNIT] },
  ),

  /** The vendor's objects that the names in a connection's configuration refer to; see `model/names.ts`. */
  scope_names: table(
    {
      connection: text(),
      /** The configured name in lower case. */
      entry: text(),
      id: text(),
      called: text(),
      elsewhere: text().nullable(),
      asked_at: bigint().nullable(),
    },
    { key: ['connection', 'entry'], keyShapes: [PER_UNIT] },
  ),

  items: table(
    {
      key: text(),
      kind: text<Item['kind']>(),
      connector: text(),
      connection: text(),
      /** The provider's time of the stored state. */
      provider_time: bigint(),
      /**
       * Hash of the content of the delivery that was applied last, not of `fields`. A delivery with the same hash and time is not
       * compared any further. Empty: each delivery is merged, because a fetched object is still missing.
       */
      hash: text(),
      finished: integer<0 | 1>(),
      gone: integer<0 | 1>(),
      seen_at: bigint(),
      /** 1 after a restore, until a delivery confirms the item. Nothing is written about it then; see `mark-unverified.ts`. */
      unverified: integer<0 | 1>().defaultTo(0),
      /** Ids of the last deliveries that changed the item, as JSON, the newest last. */
      deliveries: text().nullable(),
      /** Ids of the tasks of a work item when the items that name it were last evaluated, as JSON. */
      standing: text().nullable(),
      /** The whole item as JSON, without absent fields. */
      fields: text(),
      /** The address of the item, as its provider spells it. */
      url: text().nullable().generated(urlOfItem),
      /** The name by which people search the item, with `#` before every number: `acme/api#12`, `ENG-123`. */
      called: text().nullable().generated(nameOfItem),
      /** The phase at the last evaluation by the rules for task states, as JSON: `StoredPhase`. */
      phase: text().nullable().since('002_workflow'),
      /** Key of the pull request that this one reverts, or the name of the commit. */
      reverts: text().nullable().since('002_workflow'),
      /** The sign before the number in its name for people, if it is not `#`. */
      number_sign: text().nullable().since('005_number_sign'),
    },
    {
      key: ['key'],
      keyShapes: [KEYED],
      indexes: {
        items_gone: { columns: ['seen_at'], where: sql`"gone" = 1`, shape: [10_000, 1_000, 10] },
        // A new rule re-evaluates open items only: few of the items that accumulate over the years.
        items_open: { columns: ['key'], where: sql`"finished" = 0 and "gone" = 0`, shape: [100_000, 10_000, 1] },
        // Empty except after a restore. Open items come first.
        items_unverified: {
          columns: ['connection', 'finished', 'key'],
          where: sql`"unverified" = 1`,
          shape: [10_000, 1_000, 500, 250, 1],
        },
        items_url: { columns: ['url', 'seen_at'], shape: [1_000_000, 100_000, 2, 1] },
        items_called: { columns: ['called', 'seen_at'], shape: [1_000_000, 100_000, 2, 1] },
        items_reverts: {
          columns: ['reverts'],
          where: sql`"reverts" is not null`,
          shape: [10_000, 1_000, 1],
          since: '002_workflow',
        },
      },
    },
  ),

  /** The names that the texts of items mention, also of unknown things. A new task finds the items that name it here. */
  mentions: table(
    {
      item_key: text(),
      /** Key of a task or an item, or one of the other names of `sync/reconcile/link-rules/lookup-names.ts`. */
      name: text(),
      /** Rule, place, text and words of the mention, and the delivery that contained it, as JSON. */
      reason: text(),
    },
    {
      key: ['item_key', 'name'],
      keyShapes: [[1_000_000, 100_000, 3, 1]],
      indexes: { mentions_name: { columns: ['name'], shape: [1_000_000, 100_000, 3] } },
    },
  ),

  /** The present and former names by which texts of other items may mention a work item. */
  item_names: table(
    {
      item_key: text(),
      name: text(),
      /** Connector, host and name of the project, repository or team that is a part of this name. */
      place: text().nullable(),
      /** The vendor's id of the project, repository or team that had that name then. */
      container: text().nullable(),
      /** When the item lost the name; null if it still has it. */
      former_at: bigint().nullable(),
    },
    {
      key: ['item_key', 'name'],
      keyShapes: [[1_000_000, 100_000, 3, 1]],
      indexes: {
        item_names_name: { columns: ['name'], shape: [1_000_000, 100_000, 2] },
        item_names_place: { columns: ['place'], shape: [1_000_000, 100_000, 1_000] },
      },
    },
  ),

  tasks: table(
    {
      task_id: text(),
      key: text(),
      source: text(),
      status: text(),
      fields: text(),
      /** When an answer of the workspace last contained the task. */
      seen_at: bigint(),
      /** The parts of the task key: `BUG-` and 12 of `BUG-12`. */
      prefix: text().generated(PREFIX),
      number: integer().generated(numberOfKey),
    },
    {
      key: ['task_id'],
      keyShapes: [KEYED],
      indexes: {
        tasks_by_key: { columns: ['key'], shape: KEYED },
        tasks_by_source: { columns: ['source'], shape: [1_000_000, 100_000, 2] },
        // Finds the highest number of each prefix: an unknown key with a higher number may be that of a new task.
        tasks_by_number: { columns: ['prefix', 'number'], shape: [1_000_000, 100_000, 50_000, 1] },
      },
    },
  ),

  /** One row for each entity that the workspace should have or is known to have. */
  entities: table(
    {
      entity: text(),
      kind: text<EntityKind>(),
      item_key: text().nullable(),
      task_id: text().nullable(),
      /** JSON; null if the workspace should not have the entity, or if worksync does not decide about it. */
      desired: text().nullable(),
      /** JSON; null if the workspace is not known to have the entity. */
      known: text().nullable(),
      /** When `known` was last confirmed. */
      known_at: bigint().nullable(),
      /** The id of the entity in the workspace, if it has one. */
      remote_id: text().nullable(),
      /**
       * The owner of a link or a document; null: worksync. `manual`: a person created it; `removed`: a person removed it. worksync
       * changes neither. `gone` is no owner but the tombstone of a link that worksync removed, kept for a day so that a late answer
       * cannot restore it.
       */
      hand: text<'manual' | 'removed' | 'gone'>().nullable(),
      /** The last write of worksync that was answered, as JSON: `Written`. */
      written: text().nullable(),
      /** The revision at which the state of a link was last written or read; see `currentRevision` in `meta.ts`. */
      revision: bigint().defaultTo(0),
    },
    {
      key: ['entity'],
      keyShapes: [KEYED],
      indexes: {
        entities_item: { columns: ['item_key'], shape: [1_000_000, 100_000, 2] },
        entities_task: { columns: ['task_id'], shape: [1_000_000, 100_000, 3] },
        entities_removed: { columns: ['entity'], where: sql`"hand" = 'removed'`, shape: [1_000, 100, 1] },
        // Links that worksync removed are purged a day later.
        entities_gone: { columns: ['known_at'], where: sql`"hand" = 'gone'`, shape: [10_000, 1_000, 2] },
        // Only the tasks that count, so that no other task is read.
        entities_unfinished: {
          columns: [{ expression: reasonUnfinished }],
          where: (dialect) => sql`${reasonUnfinished(dialect)} is not null`,
          shape: [10_000, 1_000, 200],
          since: '002_workflow',
        },
      },
    },
  ),

  outbox: table(
    {
      entity: text(),
      kind: text<EntityKind>(),
      lane: text<Lane>(),
      /** When the first unsent difference arose: the time of the delivery that caused it. */
      since: bigint(),
      /** When the change may be sent; also its place in the queue. Later events delay it a little: see `model/change.ts`. */
      due: bigint(),
      /** 2 for a finished item, which is sent a little before others; otherwise 1. */
      weight: integer(),
      /**
       * The change is not tried before this time: a pause after a failure, a wait for a read, an unverified item, the pace of reads
       * after a restore, or a write that is undone only later. In the state `unknown`: the earliest time of the settling list.
       */
      not_before: bigint(),
      /** The read that the change waits for, if one ends its wait early. */
      awaits: text<AwaitedRead>().nullable().since('003_awaited_read'),
      /** Failed attempts since the change was enqueued or released. */
      attempts: integer().defaultTo(0),
      state: text<ChangeState>(),
      /**
       * The request that is in flight or has an unknown outcome, as JSON: `PreparedRequest`. For a pending read of a list it is the
       * position of the next page instead: `ListPosition`. `model/change.ts` says what it means in each state.
       */
      sent: text().nullable(),
      sent_at: bigint().nullable(),
      /** When the first difference arose while a request was in flight. */
      next_since: bigint().nullable(),
      /** Code and message of the last failure. */
      error: text().nullable(),
      /** The effect for which the guard counts the change. A read that leads to removals counts as one. */
      effect: text<Effect>().nullable(),
      /**
       * `passed`: was within the limits of the guard; `held`: needs approval; `confirmed`: a person approved it; `live`: a live webhook
       * caused it, so it does not count.
       */
      guard: text<'passed' | 'held' | 'confirmed' | 'live'>().nullable(),
      /** The deliveries that wait for this change, for lag and correlation: `[{id, at}]` as JSON. */
      waiting: text(),
      /** Stays for the previous version. */
      queue: text().generated(QUEUE, 'stored'),
      /** Computed from kind, lane and weight. */
      send_queue: text<Queue>().generated(SEND_QUEUE).since('004_send_queue'),
      /** Computed from `waiting`: 1 if only first imports caused the change. */
      imported: integer<0 | 1>().generated(IMPORTED).since('006_imported_changes'),
    },
    {
      key: ['entity'],
      keyShapes: [[100_000, 10_000, 1]],
      indexes: {
        outbox_due: { columns: ['state', 'due'], shape: [100_000, 10_000, 3_000, 2] },
        // Within one queue changes are sent in the order of their due times, so an index finds the next one of a million.
        outbox_next: {
          columns: ['state', 'send_queue', 'due', 'entity', 'not_before'],
          shape: [100_000, 10_000, 3_000, 1_000, 2, 1, 1],
          since: '004_send_queue',
        },
        outbox_turn: {
          columns: ['state', 'send_queue', 'not_before', 'due', 'entity'],
          shape: [100_000, 10_000, 3_000, 1_000, 10, 2, 1],
          since: '004_send_queue',
        },
        outbox_age: {
          columns: ['state', 'lane', 'imported', 'since'],
          shape: [100_000, 10_000, 3_000, 1_000, 500, 2],
          since: '006_imported_changes',
        },
        // This index alone answers the counts of the guard.
        outbox_effect: {
          columns: ['effect', 'state', 'guard', 'kind'],
          shape: [100_000, 10_000, 5_000, 2_000, 1_000, 500],
        },
      },
    },
  ),

  /** Notices, which worksync writes to vendors about items; see `store/items/notices.ts` for their states. */
  notices: table(
    {
      item_key: text(),
      kind: text<'comment' | 'close' | 'status'>(),
      connection: text(),
      /** The text, `closed`, or the line of a commit status; null if nothing should be written. */
      wanted: text().nullable(),
      /** The value that was written last; null if none was; empty if the outcome of the last write is unknown. */
      done: text().nullable(),
      state: text<'waiting' | 'done' | 'refused'>(),
      not_before: bigint(),
      attempts: integer(),
      error: text().nullable(),
      /** The comment as the vendor has it since the last write, as JSON: `PostedComment`. */
      standing: text().nullable(),
    },
    {
      key: ['item_key', 'kind'],
      keyShapes: [[100_000, 10_000, 2, 1]],
      indexes: { notices_waiting: { columns: ['state', 'not_before'], shape: [100_000, 10_000, 3_000, 10] } },
    },
  ),

  /** Requests that the outbox sent, one row for each attempt; see `sync/outbox/settle.ts`. */
  requests: table(
    {
      /** Numbers the requests of the workspace in the order of their completion. */
      id: integer(),
      entity: text(),
      kind: text<EntityKind>(),
      /** Null for a read. */
      item_key: text().nullable(),
      task_id: text().nullable(),
      action: text<Action>(),
      lane: text<Lane>(),
      /** When the difference arose, when the change was due, when a slot was requested, and when it was granted. */
      since: bigint(),
      due: bigint(),
      asked_at: bigint(),
      slot_at: bigint(),
      sent_at: bigint(),
      /** When the answer or the failure was stored. */
      completed_at: bigint(),
      /** HTTP status of the answer; null if there was none. */
      status: integer().nullable(),
      /** Code and message of the failure. */
      error: text().nullable(),
      outcome: text<RequestOutcome>(),
      /** 1 for the first attempt. */
      attempt: integer(),
      /** Ids of the deliveries that waited for the request, as JSON. */
      deliveries: text(),
      /** The answer is in the inbox as `answer:<this>`. */
      answer: text().nullable(),
    },
    {
      key: ['id'],
      keyShapes: [[100_000, 10_000, 1]],
      indexes: {
        requests_item: {
          columns: ['item_key', 'id'],
          where: sql`"item_key" is not null`,
          shape: [100_000, 10_000, 5, 1],
        },
        requests_completed: { columns: ['completed_at'], shape: [100_000, 10_000, 1] },
      },
    },
  ),

  /** One row per sent request, kept while it counts in the longer window. Times are monotonic milliseconds of `boot`. */
  ledger: table(
    {
      id: integer(),
      boot: text(),
      lane: text<Lane>(),
      started: double(),
      /** Null while the request is in flight. Its slot is free one window later. */
      completed: double().nullable(),
      /** HTTP status; null while the request is in flight, or if there was no answer. */
      status: integer().nullable(),
      /** The caller for which the request counts; see `model/caller.ts`. Null: its lane. */
      caller: text().nullable(),
    },
    { key: ['id'], keyShapes: [[10_000, 1_000, 1]] },
  ),

  /** Numbers of requests of each caller in each quarter of an hour. */
  quota_use: table(
    {
      /** The start of the quarter. */
      since: bigint(),
      /** See `model/caller.ts`. */
      caller: text(),
      requests: integer(),
      /** Number of requests that were answered 429. */
      refused: integer(),
    },
    { key: ['since', 'caller'], keyShapes: [[1_000_000, 10_000, 10, 1]] },
  ),

  /** The running and the last complete sweep of the workspace; see `workspace-sweeps.ts`. */
  workspace_sweeps: table(
    {
      id: integer(),
      started_at: bigint(),
      /** When the list of tasks was completely compared, and its length. */
      tasks_at: bigint().nullable(),
      tasks: integer().defaultTo(0),
      /** When the first page of records was requested, the number of records listed since, and when all were compared. */
      list_began_at: bigint().nullable(),
      records: integer().defaultTo(0),
      records_at: bigint().nullable(),
      finished_at: bigint().nullable(),
    },
    { key: ['id'], keyShapes: [FEW] },
  ),

  /** The records that the running sweep has listed so far. */
  workspace_listed: table({ entity: text() }, { key: ['entity'], keyShapes: [KEYED] }),

  /** Differences that sweeps of the workspace found. */
  workspace_findings: table(
    { sweep: integer(), entity: text(), what: text<Finding>(), found_at: bigint() },
    { key: ['sweep', 'entity', 'what'], keyShapes: [[10_000, 1_000, 100, 2, 1]] },
  ),
};

/** Tables of workspaces whose rows triggers derive from other rows, so that they are neither copied nor deleted. */
const DERIVED_TABLES = {
  /** Numbers of rows; see `counts.ts`. */
  counts: table(
    {
      counted: text<'items' | 'tasks' | 'fetches' | 'entities' | 'outbox'>(),
      /** The values that the counted rows have in common, as a JSON object. */
      class: text(),
      count: bigint(),
    },
    { key: ['counted', 'class'], keyShapes: [[10_000, 50, 10, 1]] },
  ),
};

type Definitions = typeof WORKSPACE_TABLES & typeof DERIVED_TABLES;

export type WorkspaceTable = keyof typeof WORKSPACE_TABLES;

/** The rows of the tables of workspaces, without the column `workspace`. */
export type Tables = { readonly [Name in keyof Definitions]: RowOf<Definitions[Name]['columns']> };

/** Every table of `worksync.db`. */
export type Schema = InstallationTables & {
  readonly [Name in keyof Tables]: Tables[Name] & {
    /** The number of the workspace in `workspaces`. */
    workspace: number;
  };
};

/** Every table as the database has it. */
export const ALL_TABLES: Readonly<Record<string, Table>> = {
  ...INSTALLATION_TABLES,
  ...mapValues({ ...WORKSPACE_TABLES, ...DERIVED_TABLES }, withWorkspace),
};

/** Adds the column `workspace` to a table, its keys and its indexes. */
function withWorkspace({ columns, key, unique = {}, indexes = {}, keyShapes = [] }: Table): Table {
  const within = <Each>(names: readonly Each[]) => ['workspace', ...names];
  const numbers = Object.fromEntries(Object.entries(columns).filter(([, { isNumbered }]) => isNumbered));
  return {
    columns: { ...numbers, workspace: integer(), ...columns },
    ...(key && { key: within(key) }),
    unique: mapValues(unique, within),
    indexes: mapValues(indexes, (index) => ({ ...index, columns: within(index.columns) })),
    keyShapes,
  };
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, map: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
}
