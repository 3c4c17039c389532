/**
 * A change is a request that the workspace should get: a row of the outbox. A write exists because the desired and the
 * known state of its entity differ. A read was requested by another part of worksync. The row stores no request before
 * it is claimed: only when a quota slot is free, the request is computed from `desired` and `known`.
 *
 * States, and the stage that sets each of them:
 *
 *   pending  waits for its due time and a free slot. Set by reconcile when a difference appears. Set by settle when
 *            the desired state changed while the request was in flight, or when the request failed and is repeated.
 *   sending  one transaction computed the body, stored it as in flight and wrote the ledger row. Each entity has at
 *            most one request in flight; new facts change only `desired` meanwhile.
 *   unknown  the request got no answer, or the process died while it was `sending`, and a repetition could duplicate
 *            something. It waits for the read that settles it (see `settlement`). Only creations of tasks get this state.
 *   held     needs approval, because the workspace refused it for good or the guard stopped it. Only writes are held.
 *
 *   pending → sending → (settled: the row is removed | pending | unknown | held);  unknown → pending | settled;
 *   held → pending (a person released it, or its request changed).
 *
 * The state alone does not show whether an outcome is unknown. The column `sent` shows it together with the state:
 *
 *   state    sent      meaning
 *   pending  null      nothing was sent yet, or the outcome of each attempt is known.
 *   pending  position  the read of a list continues there: `ListPosition` of `sync/outbox/request.ts`.
 *   pending  request   a write; the outcome of an earlier attempt is unknown. Never a creation, unless a person retried it.
 *   sending  request   the request is in flight, or was when the process ended.
 *   unknown  request   a creation; its outcome is unknown. `not_before` is the earliest time of the list that settles it.
 *   held     null      a write; nothing of it was carried out, as far as is known.
 *   held     request   a write; it needs approval, and the outcome of an earlier attempt is unknown.
 */
export const CHANGE_STATES = ['pending', 'sending', 'unknown', 'held'] as const;
export type ChangeState = (typeof CHANGE_STATES)[number];

/**
 * The effect of a change, as the mass-change guard counts it.
 *
 *   creation  something that the workspace is not known to have yet.
 *   removal   a link that is removed, or an open record that is closed or declined.
 *   repair    a record that others changed, as a sweep found, and that must match its provider again.
 *   status    a task whose status or synced fields change.
 */
export type Effect = (typeof EFFECTS)[number];
export const EFFECTS = ['removal', 'creation', 'repair', 'status'] as const;

/**
 * Returns the effect of a write; null for a plain edit. Whoever updates a task knows its effect.
 *
 * @param desired undefined: the entity is not desired
 * @param known undefined: the workspace is not known to have the entity
 */
export function effectOf(
  kind: EntityKind,
  desired: Readonly<Record<string, unknown>> | undefined,
  known: Readonly<Record<string, unknown>> | undefined,
): Effect | null {
  if (kind === 'read' || kind === 'task_update') return null;
  if (known === undefined) return desired === undefined ? null : 'creation';
  if (desired === undefined) return kind === 'link' ? 'removal' : null;
  // A merge is the normal end of a pull request, so many merges after an outage are no sign of damage.
  const isClosing = known['state'] === 'open' && ['closed', 'declined'].includes(String(desired['state']));
  return kind === 'pull_request' && isClosing ? 'removal' : null;
}

export type EntityKind = 'pull_request' | 'link' | 'task' | 'task_update' | 'document' | 'read';

/** The requests that the outbox sends to the workspace. */
export type Action =
  | 'read-tasks'
  | 'read-task'
  | 'read-pull-requests'
  | 'read-records'
  | 'read-links'
  | 'read-document'
  | 'record-pull-request'
  | 'add-link'
  | 'remove-link'
  | 'create-task'
  | 'update-task'
  | 'attach-document';

/**
 * The outcome of a request, for its change.
 *
 *   answered  the request succeeded, and the change is settled.
 *   settled   the request was refused, and the refusal settles the change.
 *   again     the request is sent again.
 *   unknown   the server may have carried out the request.
 *   held      the change needs approval.
 */
export type RequestOutcome = 'answered' | 'settled' | 'again' | 'unknown' | 'held';

/**
 * How a write with unknown outcome is settled.
 *
 *   repeat  the write is idempotent, so the same request is sent again. Recording a pull request is an upsert. Adding a
 *           link is idempotent by URL, and so is attaching a document to the same task. Where a server may duplicate
 *           links, `waitOfLink` first reads the links of the task. Removing a link again is answered with 404, which
 *           means success. The update of a task reads the task again first.
 *   list    creating a task is not idempotent. After `SETTLE_AFTER` one complete list settles all such creations
 *           together, by `source`. Absent → pending. Twice → the oldest is kept and the other is reported.
 */
type Settlement = 'repeat' | 'list';

/** Returns how a write of this kind is settled if its outcome is unknown. */
export function settlement(kind: EntityKind): Settlement {
  return kind === 'task' ? 'list' : 'repeat';
}

/** The longest time until a request appears in a list, milliseconds. An earlier list proves nothing. */
export const SETTLE_AFTER = 60_000;

/**
 * How long a request without an answer may still be in flight, milliseconds, also if its process died.
 * A request lives for at most 30 s.
 */
export const MAX_TIME_IN_FLIGHT = 40_000;

/** The last answered request of worksync about an entity, as stored. Epoch milliseconds. */
export interface Written {
  readonly action: Action;
  readonly sentAt: number;
  readonly answeredAt: number;
  /** The id of the answer. */
  readonly id: string;
  /** The name of the task's status before its update. */
  readonly from?: string;
  /** The outcome of an earlier attempt was unknown. */
  readonly isRepeat?: boolean;
}

/** Returns from when on a write can be undone. An earlier attempt that arrives after the undoing would repeat it. */
export function undoableFrom(written: Written | undefined): number {
  return written?.isRepeat ? written.answeredAt + MAX_TIME_IN_FLIGHT : 0;
}

/** Entity names. The prefix is the kind; the rest is the natural key. */
export const entity = {
  pullRequest: (provider: string, repoId: string, identifier: string) =>
    `pull_request:${provider}/${repoId}/${identifier}`,
  link: (itemKey: string, taskId: string) => `link:${itemKey}>${taskId}`,
  task: (itemKey: string) => `task:${itemKey}`,
  taskUpdate: (taskId: string) => `update:${taskId}`,
  readTasks: 'read:tasks',
  readTask: (taskId: string) => `read:task:${taskId}`,
  readPullRequests: 'read:pull_requests',
  /** The records of one branch: few, among which one record is searched. */
  readRecords: (provider: string, repoId: string, headBranch: string) =>
    `read:records:${JSON.stringify([provider, repoId, headBranch])}`,
  document: (documentId: string) => `document:${documentId}`,
  readLinks: (taskId: string) => `read:links:${taskId}`,
  readDocument: (documentId: string) => `read:document:${documentId}`,
} as const;

/** Returns the branch whose records `entity.readRecords` reads; undefined for every other name. */
export function branchOfRecordsRead(
  name: string,
): { provider: string; repoId: string; headBranch: string } | undefined {
  const prefix = 'read:records:';
  if (!name.startsWith(prefix)) return undefined;
  const [provider, repoId, headBranch] = JSON.parse(name.slice(prefix.length)) as [string, string, string];
  return { provider, repoId, headBranch };
}

/** Returns the id of the task whose links `entity.readLinks` reads; undefined for every other name. */
export function taskOfLinkRead(name: string): string | undefined {
  const prefix = entity.readLinks('');
  return name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
}

/** The groups of held changes, which a person releases as a whole: held by the guard, or refused by the workspace. */
export const HELD_CLASSES = ['removals', 'creations', 'repairs', 'statuses', 'refused'] as const;
export type HeldClass = (typeof HELD_CLASSES)[number];

/** A lane is a class of urgency. This order is for display; `store/changes/next-change.ts` decides which change is sent first. */
export const LANES = ['interactive', 'triage', 'link', 'status', 'mirror', 'read', 'backfill'] as const;
export type Lane = (typeof LANES)[number];

/** The most creations of one connection within these seconds. Further ones are sent in the lane of backfills. */
export const BURST = { creations: 500, seconds: 60 };

const SECOND = 1_000;
/** The part of a promised visibility that the request itself takes, milliseconds. */
const SEND_TIME = SECOND / 2;

/** How long a change waits for further events, so that a burst of them becomes one write. Milliseconds. */
interface Debounce {
  /** After the last event. */
  readonly wait: number;
  /** After the first event, however many follow. */
  readonly maxWait: number;
}

/**
 * Returns the debounce of a lane. For backfills it has no effect: they are sent after all other changes, at the pace of
 * the throttle.
 *
 * Live lanes wait until no event has come for `2.4 + 6u²` seconds, and at most `6 + 9u²` seconds. These are seconds and
 * never minutes, because with a small quota the queue itself is the delay. The numbers are the best of some hundred in
 * the benchmark `test/bench/quota/fresh.ts`: with shorter ones a write is outdated at once, with longer ones people wait.
 *
 * With a promised visibility, live lanes wait until just before its end, which takes the fewest writes.
 *
 * Status changes wait `30u²` seconds longer, so that several moves of one task become one write while the quota is short.
 * They do not count in u, so they delay no other lane.
 *
 * @param usedShare u, the share of the long quota window that lanes other than status and backfill use, 0..1
 * @param visibility promised time from an event to its write while the quota suffices, milliseconds
 */
export function debounceOf(lane: Lane, usedShare: number, visibility?: number): Debounce {
  if (lane === 'interactive') return always(0);
  if (lane === 'read') return always(60 * SECOND);
  if (visibility !== undefined) return always(Math.max(0, visibility - SEND_TIME));
  const u = Math.min(1, Math.max(0, usedShare));
  const yielded = lane === 'status' ? 30 * u * u : 0;
  const seconds = (wait: number) => Math.round((wait + yielded) * SECOND);
  return { wait: seconds(2.4 + 6 * u * u), maxWait: seconds(6 + 9 * u * u) };
}

function always(wait: number): Debounce {
  return { wait, maxWait: wait };
}

/**
 * Returns when a new change is due, by its first and its last event, epoch milliseconds.
 * For a pending change, `dueOf` in `store/changes/outbox-rows.ts` decides.
 */
export function dueAfter(first: number, last: number, { wait, maxWait }: Debounce): number {
  return Math.min(first + maxWait, last + wait);
}

/** An entity, with the names that people give to its item and its task. */
interface NamedParts {
  readonly entity: string;
  readonly kind: EntityKind;
  /** `acme/app#1`; null for a read. */
  readonly item: string | null;
  /** `BUG-12`; null if the entity has no task, or none yet. */
  readonly task: string | null;
}

/** Returns the name of an entity for people: `record of acme/app#1`, `link of acme/app#1 to BUG-12`. */
export function entityLabel({ entity, kind, item, task }: NamedParts): string {
  switch (kind) {
    case 'pull_request':
      return `record of ${item ?? ''}`;
    case 'link':
      return `link of ${item ?? ''} to ${task ?? ''}`;
    case 'task':
      return `task for ${item ?? ''}`;
    case 'task_update':
      return `update of ${task ?? ''}`;
    case 'document':
      return `document for ${task ?? item ?? ''}`;
    case 'read':
      return readLabel(entity, task);
  }
}

function readLabel(entity: string, task: string | null): string {
  const ofLinks = task ?? taskOfLinkRead(entity);
  if (ofLinks !== undefined) return `links of ${ofLinks}`;
  const records = branchOfRecordsRead(entity);
  if (records) return `records of the branch ${records.headBranch}`;
  return entity === 'read:tasks' ? 'list of tasks' : entity.replace(/^read:/, '').replaceAll('_', ' ');
}
