import type { Generated, GeneratedAlways } from 'kysely';
import type { Action, ChangeState, Effect, EntityKind, RequestOutcome } from '../../model/change.ts';
import type { DeliveryOrigin, DeliveryState } from '../../model/delivery.ts';
import type { Finding } from '../../model/foreign-edits.ts';
import type { Item } from '../../model/item.ts';
import type { Lane } from '../../model/lane.ts';
import type { InstallationTables } from './installation-tables.ts';

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

/** Every table of `worksync.db`. */
export type Schema = InstallationTables & {
  readonly [Table in keyof Tables]: Tables[Table] & {
    /** The number of the workspace in `workspaces`; the first column of every key. */
    workspace: number;
  };
};

/**
 * The tables whose rows belong to workspaces. They are reached through a `Scope` only. Times are epoch milliseconds by the wall
 * clock unless a comment says otherwise.
 */
export interface Tables {
  /** Single facts by name, for example when the first complete reads were done. */
  meta: { name: string; value: string };

  inbox: {
    /** The delivery number, in the order of arrival over all workspaces. */
    id: Generated<number>;
    connection: string;
    /** Unique within a connection: the vendor's delivery id, or the SHA-256 of the bytes. */
    delivery_key: string;
    source: DeliveryOrigin;
    event: string;
    /** Null after the retention time. Read and written through `bodies.ts` only. */
    body: Buffer | null;
    /** Original length of the body in bytes if it is compressed; null if it is stored as received. */
    unpacked_length: number | null;
    received_at: number;
    state: DeliveryState;
    /** Why it was ignored or quarantined. */
    reason: string | null;
    attempts: Generated<number>;
    settled_at: number | null;
  };

  items: {
    key: string;
    kind: Item['kind'];
    connector: string;
    connection: string;
    /** The provider's time of the stored state. */
    provider_time: number;
    /**
     * Hash of the content of the delivery that was applied last, not of `fields`. A delivery with the same hash and time is not
     * compared any further. Empty: each delivery is merged, because a fetched object is still missing.
     */
    hash: string;
    finished: 0 | 1;
    gone: 0 | 1;
    /** The whole item as JSON, without absent fields. */
    fields: string;
    seen_at: number;
    /** The address of the item, as its provider spells it. */
    url: GeneratedAlways<string | null>;
    /** The name by which people search the item, with `#` before every number: `acme/api#12`, `ENG-123`. */
    called: GeneratedAlways<string | null>;
    /** Ids of the tasks of a work item when the items that name it were last evaluated, as JSON. */
    standing: Generated<string | null>;
    /** Ids of the last deliveries that changed the item, as JSON, the newest last. */
    deliveries: Generated<string | null>;
    /** 1 after a restore, until a delivery confirms the item. Nothing is written about it then; see `mark-unverified.ts`. */
    unverified: Generated<0 | 1>;
    /** The phase at the last evaluation by the rules for task states, as JSON: `StoredPhase`. */
    phase: Generated<string | null>;
    /** Key of the pull request that this one reverts, or the name of the commit. */
    reverts: Generated<string | null>;
    /** The sign before the number in its name for people, if it is not `#`. */
    number_sign: Generated<string | null>;
  };

  /** The names that the texts of items mention, also of unknown things. A new task finds the items that name it here. */
  mentions: {
    item_key: string;
    /** Key of a task or an item, or one of the other names of `sync/reconcile/link-rules/lookup-names.ts`. */
    name: string;
    /** Rule, place, text and words of the mention, and the delivery that contained it, as JSON. */
    reason: string;
  };

  /** The present and former names by which texts of other items may mention a work item. */
  item_names: {
    item_key: string;
    name: string;
    /** Connector, host and name of the project, repository or team that is a part of this name. */
    place: string | null;
    /** The vendor's id of the project, repository or team that had that name then. */
    container: string | null;
    /** When the item lost the name; null if it still has it. */
    former_at: number | null;
  };

  tasks: {
    task_id: string;
    key: string;
    source: string;
    status: string;
    fields: string;
    /** When an answer of the workspace last contained the task. */
    seen_at: number;
    /** The parts of the task key: `BUG-` and 12 of `BUG-12`. */
    prefix: GeneratedAlways<string>;
    number: GeneratedAlways<number>;
  };

  /** Tokens by which jobs and scripts use the gateway in place of the workspace's API key. */
  gateway_tokens: {
    id: string;
    /** SHA-256 of the token. */
    digest: string;
    description: string;
    created_at: number;
    revoked_at: number | null;
  };

  /** One row for each entity that the workspace should have or is known to have. */
  entities: {
    entity: string;
    kind: EntityKind;
    item_key: string | null;
    task_id: string | null;
    /** JSON; null if the workspace should not have the entity, or if worksync does not decide about it. */
    desired: string | null;
    /** JSON; null if the workspace is not known to have the entity. */
    known: string | null;
    /** When `known` was last confirmed. */
    known_at: number | null;
    /** The id of the entity in the workspace, if it has one. */
    remote_id: string | null;
    /**
     * The owner of a link or a document; null: worksync. `manual`: a person created it; `removed`: a person removed it. worksync
     * changes neither. `gone` is no owner but the tombstone of a link that worksync removed, kept for a day so that a late answer
     * cannot restore it.
     */
    hand: 'manual' | 'removed' | 'gone' | null;
    /** The last write of worksync that was answered, as JSON: `Written`. */
    written: Generated<string | null>;
    /** The revision at which the state of a link was last written or read; see `revision.ts`. */
    revision: Generated<number>;
  };

  /** Notices, which worksync writes to vendors about items; see `store/notices.ts` for their states. */
  notices: {
    item_key: string;
    kind: 'comment' | 'close' | 'status';
    connection: string;
    /** The text, `closed`, or the line of a commit status; null if nothing should be written. */
    wanted: string | null;
    /** The value that was written last; null if none was; `UNSURE` if the outcome of the last write is unknown. */
    done: string | null;
    state: 'waiting' | 'done' | 'refused';
    not_before: number;
    attempts: number;
    error: string | null;
    /** The comment as the vendor has it since the last write, as JSON: `PostedComment`. */
    standing: Generated<string | null>;
  };

  outbox: {
    entity: string;
    kind: EntityKind;
    lane: Lane;
    /** When the first unsent difference arose: the time of the delivery that caused it. */
    since: number;
    /** When the change may be sent; also its place in the queue. Later events delay it a little: see `model/lane.ts`. */
    due: number;
    /** 2 for a finished item, which is sent a little before others; otherwise 1. */
    weight: number;
    /** Computed from kind, lane and weight. */
    send_queue: GeneratedAlways<Queue>;
    /**
     * The change is not tried before this time: a pause after a failure, a wait for a read, an unverified item, the pace of reads
     * after a restore, or a write that is undone only later. In the state `unknown`: the earliest time of the settling list.
     */
    not_before: number;
    /** The read that the change waits for, if one ends its wait early. */
    awaits: Generated<AwaitedRead | null>;
    /** Failed attempts since the change was enqueued or released. */
    attempts: Generated<number>;
    state: ChangeState;
    /**
     * The request that is in flight or has an unknown outcome, as JSON: `PreparedRequest`. For a pending read of a list it is the
     * position of the next page instead: `ListPosition`. `model/change.ts` says what it means in each state.
     */
    sent: string | null;
    sent_at: number | null;
    /** When the first difference arose while a request was in flight. */
    next_since: number | null;
    /** Code and message of the last failure. */
    error: string | null;
    /** The effect for which the guard counts the change. A read that leads to removals counts as one. */
    effect: Generated<Effect | null>;
    /**
     * `passed`: was within the limits of the guard; `held`: needs approval; `confirmed`: a person approved it; `live`: a live webhook
     * caused it, so it does not count.
     */
    guard: Generated<'passed' | 'held' | 'confirmed' | 'live' | null>;
    /** The deliveries that wait for this change, for lag and correlation: `[{id, at}]` as JSON. */
    waiting: string;
    /** Computed from `waiting`: 1 if only first imports caused the change. */
    imported: GeneratedAlways<0 | 1>;
  };

  /** Requests that the outbox sent, one row for each attempt; see `sync/outbox/settle.ts`. */
  requests: {
    /** Numbers the requests of the workspace in the order of their completion. */
    id: number;
    entity: string;
    kind: EntityKind;
    /** Null for a read. */
    item_key: string | null;
    task_id: string | null;
    action: Action;
    lane: Lane;
    /** When the difference arose, when the change was due, when a slot was requested, and when it was granted. */
    since: number;
    due: number;
    asked_at: number;
    slot_at: number;
    sent_at: number;
    /** When the answer or the failure was stored. */
    completed_at: number;
    /** HTTP status of the answer; null if there was none. */
    status: number | null;
    /** Code and message of the failure. */
    error: string | null;
    outcome: RequestOutcome;
    /** 1 for the first attempt. */
    attempt: number;
    /** Ids of the deliveries that waited for the request, as JSON. */
    deliveries: string;
    /** The answer is in the inbox as `answer:<this>`. */
    answer: string | null;
  };

  /** Objects to fetch from a provider. */
  fetches: {
    reference: string;
    connection: string;
    since: number;
    not_before: number;
    attempts: Generated<number>;
    error: string | null;
    /** The delivery that requested the fetch, for correlation. */
    delivery_id: number;
    /** Number of requests for this fetch. A fetch settles the row only if the number is still that of its start. */
    asks: Generated<number>;
  };

  polls: {
    connection: string;
    unit: string;
    watermark: string | null;
    /** The unfinished walk as JSON: `Walk` of `poll-states.ts`. */
    walk: string | null;
    /** Validator of the first page of the last complete walk. */
    etag: string | null;
    /** SHA-256 of the last complete walk if that was a single page. */
    digest: string | null;
    completed_at: number | null;
    error: string | null;
    failed_at: number | null;
  };

  /** The vendor's objects that the names in a connection's configuration refer to; see `model/names.ts`. */
  scope_names: {
    connection: string;
    /** The configured name in lower case. */
    entry: string;
    id: string;
    called: string;
    elsewhere: string | null;
    asked_at: number | null;
  };

  /** One row per unit of a backfill; see `backfills.ts`. */
  backfills: {
    connection: string;
    unit: string;
    /** RFC 3339; null: items of any age. */
    since: string | null;
    /** The page to read next; null: the first page. */
    page: string | null;
    /** Numbers of pages and items that were read. */
    pages: Generated<number>;
    items: Generated<number>;
    /** Number of items according to the vendor. */
    total: number | null;
    started_at: number;
    /** Null until all pages are read. */
    finished_at: number | null;
    /** Code and message of the failure that ended the backfill or delays it. */
    error: string | null;
    /** Number of consecutive failures, and the time of the next attempt. */
    attempts: Generated<number>;
    not_before: Generated<number>;
  };

  /** Sweeps of connections, one row per unit. */
  sweeps: {
    connection: string;
    unit: string;
    /** The last complete sweep, the number of items it listed, and of known items it lacked, which were then fetched. */
    completed_at: Generated<number | null>;
    listed: Generated<number | null>;
    asked: Generated<number | null>;
    error: string | null;
    failed_at: number | null;
  };

  /** The running and the last complete sweep of the workspace; see `workspace-sweeps.ts`. */
  workspace_sweeps: {
    id: number;
    started_at: number;
    /** When the list of tasks was completely compared, and its length. */
    tasks_at: Generated<number | null>;
    tasks: Generated<number>;
    /** When the first page of records was requested, the number of records listed since, and when all were compared. */
    list_began_at: Generated<number | null>;
    records: Generated<number>;
    records_at: Generated<number | null>;
    finished_at: Generated<number | null>;
  };

  /** The records that the running sweep has listed so far. */
  workspace_listed: { entity: string };

  /** Differences that sweeps of the workspace found. */
  workspace_findings: { sweep: number; entity: string; what: Finding; found_at: number };

  /** Numbers of rows, maintained by triggers; see `counts.ts`. */
  counts: {
    counted: 'items' | 'tasks' | 'fetches' | 'entities' | 'outbox';
    /** The values that the counted rows have in common, as a JSON object. */
    class: string;
    count: number;
  };

  /** The time from which the next run of each scheduled job is computed; see `platform/lib/scheduler.ts`. */
  job_runs: { job: string; last_at: number };

  /** One row per sent request, kept while it counts in the longer window. Times are monotonic milliseconds of `boot`. */
  ledger: {
    id: number;
    boot: string;
    lane: Lane;
    /** The caller for which the request counts; see `model/caller.ts`. Null: its lane. */
    caller: Generated<string | null>;
    started: number;
    /** Null while the request is in flight. Its slot is free one window later. */
    completed: number | null;
    /** HTTP status; null while the request is in flight, or if there was no answer. */
    status: number | null;
  };

  /** Numbers of requests of each caller in each quarter of an hour. */
  quota_use: {
    /** The start of the quarter. */
    since: number;
    /** See `model/caller.ts`. */
    caller: string;
    requests: number;
    /** Number of requests that were answered 429. */
    refused: number;
  };
}

/** Tables whose rows triggers derive from other rows. */
type DerivedTable = 'counts';

/** The tables of workspaces, with the columns that identify a row within its workspace. */
export const WORKSPACE_TABLES = {
  meta: ['name'],
  job_runs: ['job'],
  gateway_tokens: ['id'],
  inbox: ['id'],
  fetches: ['reference'],
  polls: ['connection', 'unit'],
  sweeps: ['connection', 'unit'],
  backfills: ['connection', 'unit'],
  scope_names: ['connection', 'entry'],
  items: ['key'],
  mentions: ['item_key', 'name'],
  item_names: ['item_key', 'name'],
  tasks: ['task_id'],
  entities: ['entity'],
  outbox: ['entity'],
  notices: ['item_key', 'kind'],
  requests: ['id'],
  ledger: ['id'],
  quota_use: ['since', 'caller'],
  workspace_sweeps: ['id'],
  workspace_listed: ['entity'],
  workspace_findings: ['sweep', 'entity', 'what'],
} as const satisfies { readonly [Table in Exclude<keyof Tables, DerivedTable>]: readonly (keyof Tables[Table])[] };

export type WorkspaceTable = keyof typeof WORKSPACE_TABLES;
