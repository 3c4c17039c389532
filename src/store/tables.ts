import type { Generated, GeneratedAlways } from 'kysely';
import type { Action, ChangeState, Effect, EntityKind, RequestOutcome } from '../model/change.ts';
import type { DeliverySource, DeliveryState } from '../model/delivery.ts';
import type { Finding } from '../model/foreign-edits.ts';
import type { Item } from '../model/item.ts';
import type { Lane } from '../model/lane.ts';
import type { InstallationTables } from './installation-tables.ts';

/** Rows of the outbox in the order of due times. */
export type Queue = 'read' | 'live' | 'finished' | 'backfill';

/** Every table of `worksync.db`. */
export type Schema = InstallationTables & {
  readonly [Table in keyof Tables]: Tables[Table] & {
    /** Its number in `workspaces`; first in every key. */
    workspace: number;
  };
};

/**
 * The rows that belong to a workspace, reached through a `Scope` only. Times are epoch milliseconds by the wall clock
 * unless they say otherwise.
 */
export interface Tables {
  /** Single facts by name: when the first complete reads were done, the throttle's share, … */
  meta: { name: string; value: string };

  inbox: {
    /** In the order of arrival, over all workspaces. */
    id: Generated<number>;
    connection: string;
    /** Connection + key is unique: the vendor's delivery id, or the SHA-256 of the bytes. */
    delivery_key: string;
    source: DeliverySource;
    event: string;
    /** Null once the retention time has passed. Read and written through `bodies.ts` only. */
    body: Buffer | null;
    /** Original length of the body if it is compressed; null if it is stored as received. */
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
    /** Hash of the stored fields: unchanged means no write. */
    hash: string;
    finished: 0 | 1;
    gone: 0 | 1;
    /** The whole item as JSON, absent fields left out. */
    fields: string;
    seen_at: number;
    /** Its address, as its provider spells it. */
    url: GeneratedAlways<string | null>;
    /** What people call it: `acme/api#12`, `ENG-123`. */
    called: GeneratedAlways<string | null>;
    /** Ids of the tasks of a work item, as JSON, as they were when the items that name it were last evaluated. */
    standing: Generated<string | null>;
    /** Ids of the last deliveries that changed it, as JSON, the newest last. */
    deliveries: Generated<string | null>;
    /** 1: no delivery has confirmed it since a restore, so nothing is written about it; see `mark-unverified.ts`. */
    unverified: Generated<0 | 1>;
  };

  /** What an item's text names, known or not yet: a new task, or an item that gets its task, finds its items here. */
  mentions: {
    item_key: string;
    /** Key of a task or an item, or one of the other names of `sync/reconcile/link-rules/item-names-of.ts`. */
    name: string;
    /** Rule, place, text and words of the mention, and the delivery that brought it, as JSON. */
    reason: string;
  };

  /** Names under which a work item is found in other items' texts: those of now, and former ones. */
  item_names: {
    item_key: string;
    name: string;
    /** The name of the project, repository or team that is a part of this name, with its connector and host. */
    place: string | null;
    /** The vendor's id of what had that name then. */
    container: string | null;
    /** When the item lost the name; null while it has it. */
    former_at: number | null;
  };

  tasks: {
    task_id: string;
    key: string;
    source: string;
    status: string;
    fields: string;
    /** When the workspace last said that it exists. */
    seen_at: number;
    /** The parts of its key: `BUG-` and 12. */
    prefix: GeneratedAlways<string>;
    number: GeneratedAlways<number>;
  };

  /** Tokens that stand for the daemon's key at the gateway. */
  gateway_tokens: {
    id: string;
    /** SHA-256 of the token. */
    digest: string;
    description: string;
    created_at: number;
    revoked_at: number | null;
  };

  /** One row for each thing the workspace should hold or is known to hold. */
  entities: {
    entity: string;
    kind: EntityKind;
    item_key: string | null;
    task_id: string | null;
    /** JSON; null where the workspace should not hold it, or where we have no opinion. */
    desired: string | null;
    /** JSON; null where the workspace is not known to hold it. */
    known: string | null;
    /** When `known` was last confirmed. */
    known_at: number | null;
    /** The workspace's id of it, where it has one. */
    remote_id: string | null;
    /**
     * `manual`: made by a person; `removed`: removed by a person. Neither is touched. `gone`: a link that worksync removed,
     * kept for a day so that a late answer cannot bring it back.
     */
    hand: 'manual' | 'removed' | 'gone' | null;
    /** The last request of ours that was answered, as JSON: `Written`. */
    written: Generated<string | null>;
    /** Of a link: the revision at which its state was last written or read; see `revision.ts`. */
    revision: Generated<number>;
  };

  /** What worksync writes to vendors about items; states in `store/notices.ts`. */
  notices: {
    item_key: string;
    kind: 'comment' | 'close' | 'status';
    connection: string;
    /** The text, `closed`, or the line of a commit status; null where nothing is wanted. */
    wanted: string | null;
    /** What was written last; null: nothing ever was; `UNSURE`: nobody knows. */
    done: string | null;
    state: 'waiting' | 'done' | 'refused';
    not_before: number;
    attempts: number;
    error: string | null;
    /** Of a comment: what stands at the vendor since the last writing, as JSON: `PostedComment`. */
    standing: Generated<string | null>;
  };

  outbox: {
    entity: string;
    kind: EntityKind;
    lane: Lane;
    /** First unsent difference, from the delivery that brought it. */
    since: number;
    /** When it may go, and its place among those that may. Later events push it back a little: see `model/lane.ts`. */
    due: number;
    /** 2 for a finished item, which goes a little before others; otherwise 1. */
    weight: number;
    /** Made of kind, lane and weight: within one queue the order of due times is the order of sending. */
    queue: GeneratedAlways<Queue>;
    /** Not tried before this time: a back-off, or `settleAfter`. */
    not_before: number;
    attempts: Generated<number>;
    state: ChangeState;
    /** The request in flight or with unknown outcome, as JSON. */
    sent: string | null;
    sent_at: number | null;
    /** First difference that appeared while a request was in flight. */
    next_since: number | null;
    /** Code and message of the last failure. */
    error: string | null;
    /** For the mass-change guard. A read that leads to removals is counted as one. */
    effect: Generated<Effect | null>;
    /** `passed`: within the limits when it came; `held`: the guard holds it; `confirmed`: a person approved it. */
    guard: Generated<'passed' | 'held' | 'confirmed' | null>;
    /** The deliveries that wait for this change: `[{id, at}]` as JSON, for lag and correlation. */
    waiting: string;
  };

  /** Requests that the outbox sent, one row for each attempt; see `sync/outbox/request-history.ts`. */
  requests: {
    /** In the order of their ends, within the workspace. */
    id: number;
    entity: string;
    kind: EntityKind;
    /** Null for a read. */
    item_key: string | null;
    task_id: string | null;
    action: Action;
    lane: Lane;
    /** When the difference was found, when it was due, when it asked for a slot, and when it got one. */
    since: number;
    due: number;
    asked_at: number;
    slot_at: number;
    sent_at: number;
    /** When its answer was stored, or its failure. */
    completed_at: number;
    /** Of the answer; null where none came. */
    status: number | null;
    /** Code and message of the failure. */
    error: string | null;
    outcome: RequestOutcome;
    /** 1 for the first. */
    attempt: number;
    /** Ids of the deliveries that waited for it, as JSON. */
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
    /** The delivery that asked, for correlation. */
    delivery_id: number;
    /** How often it was asked for: a fetch settles the row only if nobody asked since it began. */
    asks: Generated<number>;
  };

  polls: {
    connection: string;
    unit: string;
    watermark: string | null;
    /** `{page, candidate, startedAt}` of an unfinished walk as JSON. */
    walk: string | null;
    /** Validator of the first page of the last complete walk. */
    etag: string | null;
    /** SHA-256 of the last complete walk where that was a single page. */
    digest: string | null;
    completed_at: number | null;
    error: string | null;
    failed_at: number | null;
  };

  /** What the names in a connection's configuration lead to; see `model/names.ts`. */
  scope_names: {
    connection: string;
    /** In lower case. */
    entry: string;
    id: string;
    called: string;
    elsewhere: string | null;
    asked_at: number | null;
  };

  /** One row per unit of a backfill, see `backfills.ts`. */
  backfills: {
    connection: string;
    unit: string;
    /** RFC 3339; null: everything that ever was. */
    since: string | null;
    /** The page to read next; null: the first one. */
    page: string | null;
    /** Read so far. */
    pages: Generated<number>;
    items: Generated<number>;
    /** How many items the vendor says there are. */
    total: number | null;
    started_at: number;
    /** Null while there is something to read. */
    finished_at: number | null;
    /** Code and message of the failure that ended it, or that it waits after. */
    error: string | null;
    /** Failures in a row, and not tried before. */
    attempts: Generated<number>;
    not_before: Generated<number>;
  };

  /** The full lists of what exists, one row per unit. */
  sweeps: {
    connection: string;
    unit: string;
    /** The last one that reached its end: how much it listed, and how many known items it lacked, so that they were fetched. */
    completed_at: Generated<number | null>;
    listed: Generated<number | null>;
    asked: Generated<number | null>;
    error: string | null;
    failed_at: number | null;
  };

  /** One row per round of the workspace sweep: the one that runs, and the last one that ended. See `workspace-sweeps.ts`. */
  workspace_sweeps: {
    id: number;
    started_at: number;
    /** When the list of tasks had been compared, and how many it had. */
    tasks_at: Generated<number | null>;
    tasks: Generated<number>;
    /** When the first page of the list of records was asked for; those listed since; when all of it had been compared. */
    list_began_at: Generated<number | null>;
    records: Generated<number>;
    records_at: Generated<number | null>;
    finished_at: Generated<number | null>;
  };

  /** The records that the list of the running round has named so far. */
  workspace_listed: { entity: string };

  /** Differences that rounds found. */
  workspace_findings: { sweep: number; entity: string; what: Finding; found_at: number };

  /** How many rows there are, kept by triggers and only read here: see `counts.ts`. */
  counts: {
    counted: 'items' | 'tasks' | 'fetches' | 'entities' | 'outbox';
    /** The columns by which rows are told apart, as a JSON object. */
    class: string;
    count: number;
  };

  /** The time from which the next run of each scheduled job is computed; see `platform/lib/scheduler.ts`. */
  job_runs: { job: string; last_at: number };

  /** One row per request sent, kept while it counts in the longer window. Times are monotonic milliseconds of `boot`. */
  ledger: {
    id: number;
    boot: string;
    lane: Lane;
    /** Whom it is counted for; see `model/caller.ts`. Null: its lane. */
    caller: Generated<string | null>;
    started: number;
    /** Null while in flight. The slot is freed one window after this. */
    completed: number | null;
    /** HTTP status; null while in flight or when no answer came. */
    status: number | null;
  };

  /** Requests of each caller in each quarter of an hour. */
  quota_use: {
    /** When the quarter began. */
    since: number;
    /** See `model/caller.ts`. */
    caller: string;
    requests: number;
    /** Those of them that were answered 429. */
    refused: number;
  };
}
