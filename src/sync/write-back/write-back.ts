import { MAX_TIME_IN_FLIGHT } from '../../model/change.ts';
import { asSyncError, type ErrorCode, type SyncError, wasSent } from '../../model/errors.ts';
import { type PostedComment, parseStatus } from '../../model/notice.ts';
import { backoff, onClockSetBack, waitForWork } from '../../platform/lib/clock.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import type { Logger } from '../../platform/lib/telemetry.ts';
import { findItem, itemSummary, readFields } from '../../store/items/items.ts';
import {
  beginNotice,
  clampNoticeTimes,
  dueNotices,
  type NoticeRow,
  nextNotice,
  postponeNotice,
  resumeForbidden,
  resumeNotices,
  settleNotice,
  withdraw,
} from '../../store/items/notices.ts';
import { retryUntilCommitted } from '../../store/retry-until-committed.ts';
import { enqueueTaskListRead } from '../../store/workspace/workspace-reads.ts';
import type { ActiveConnection, WorkspaceContext } from '../workspace-context.ts';

const FIRST_PAUSE = 5_000;
const LONGEST_PAUSE = 3_600_000;
/** The pause until the workspace's id is known, which the first list of tasks contains, milliseconds. */
const ID_PAUSE = 30_000;
/** Time between two reads of the task list that find finished tasks, milliseconds: one request for some hundreds of tasks. */
const READ_TASKS_EVERY = 15 * 60_000;

/** Errors by which the vendor answered that it did not carry out the write. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  'rate_limited',
  'unauthorized',
  'consent_needed',
  'forbidden',
  'not_found',
  'conflict',
  'refused',
]);

/** Whether any write-back is configured. */
function isWritable({ writeBack }: ActiveConnection): boolean {
  return (
    writeBack !== undefined && [writeBack.comment, writeBack.close, writeBack.status].some((each) => each !== false)
  );
}

/** Whether items are closed with their tasks, and no webhook of the workspace reports finished tasks. */
function needsTaskList({ config: { workspace, connections } }: WorkspaceContext): boolean {
  return workspace.webhook === undefined && connections.some(({ writeBack: { close } }) => close);
}

/** The comment of an item that is no longer linked to a task. */
const NOTHING_LINKED = 'Not linked to a task any more.';

/**
 * Writes the notices of reconcile to vendors. Each write can be repeated: a comment has a marker and is updated in
 * place, a closed item stays closed, and a status replaces the status of the same name. So a write with unknown outcome
 * is sent again, once the first request must have arrived.
 */
export function createWriteBack(context: WorkspaceContext) {
  const { store, clock, random, logger, pauses } = context;
  const names = context.connections.filter(isWritable).map(({ name }) => name);
  const pauseLeft = (connection: string) => pauses.left(connection, 'fetch');
  const unpaused = () => names.filter((name) => pauseLeft(name) === 0);
  const loggedRefusals = new Set<string>();
  const refused = createRetries(context);
  const clampTimesIfSetBack = onClockSetBack(clock, () =>
    store.commit((query) => clampNoticeTimes(query, clock.now())),
  );
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const pause = await logFailure(logger, async () => {
        await refused.retryIfDue();
        return Math.min(await writeDue(signal), refused.untilDue());
      });
      await waitForWork(clock, pause ?? FIRST_PAUSE, context.writeBack.wait(), signal);
    }
  }

  /** @returns milliseconds until the next pass; Infinity if only a notification starts one */
  async function writeDue(signal: AbortSignal): Promise<number> {
    await clampTimesIfSetBack();
    const due = await dueNotices(store.query, unpaused(), clock.now());
    const id = due.length === 0 ? undefined : await context.workspaceId();
    // The marker of a comment contains the id; a commit status needs none.
    const isReady = ({ kind }: NoticeRow) => kind === 'status' || id !== undefined;
    for (const notice of due.filter(isReady)) {
      if (signal.aborted) return 0;
      // A rate limit may have paused the connection during this pass.
      if (pauseLeft(notice.connection) === 0) await write(notice, id ?? '', signal);
    }
    return due.every(isReady) ? untilNext() : ID_PAUSE;
  }

  async function untilNext(): Promise<number> {
    const next = await nextNotice(store.query, unpaused());
    const waits = next === undefined ? [] : [Math.min(LONGEST_PAUSE, Math.max(0, next - clock.now()))];
    return Math.min(...waits, ...names.map(pauseLeft).filter((ms) => ms > 0));
  }

  /** Commits the begin of the write before it is sent, so that a restart knows that its outcome is unknown. */
  async function write(notice: NoticeRow, id: string, signal: AbortSignal): Promise<void> {
    const { item_key: itemKey, kind, connection } = notice;
    let item = itemKey;
    try {
      item = (await itemSummary(store.query, itemKey)).name;
      const send = await prepare(context, notice, id);
      // It is requested again by the first change of an item that came back into the scope.
      if (send === 'out of scope') return await store.commit((transaction) => withdraw(transaction, kind, [itemKey]));
      if (send && !(await store.commit((transaction) => beginNotice(transaction, notice)))) return;
      const posted = await send?.(signal);
      await storeSuccess(context, notice, posted, signal);
      logger.info({ item, itemKey, kind, connection }, 'written to the vendor');
    } catch (thrown) {
      if (signal.aborted) return;
      await postpone(notice, { item, itemKey, connection }, asSyncError(thrown), signal);
    }
  }

  async function postpone(notice: NoticeRow, about: object, error: SyncError, signal: AbortSignal): Promise<void> {
    const { kind, connection } = notice;
    // A rate limit concerns the connection, so the notice keeps its place.
    const isLimited = pauses.recordFailure(connection, error, 'fetch') > 0;
    const attempts = notice.attempts + (isLimited ? 0 : 1);
    const pause = isLimited ? 0 : pauseAfter(error, backoff(random, attempts, FIRST_PAUSE, LONGEST_PAUSE));
    if (error.code === 'forbidden') refused.scheduleRetry();
    const state = error.verdict === 'never' || error.code === 'forbidden' ? 'refused' : 'waiting';
    // A missing permission concerns all items, so it is a warning only once.
    const refusal = `${connection} ${kind} ${error.code}`;
    const level = state === 'refused' && kind === 'status' && loggedRefusals.has(refusal) ? 'debug' : 'warn';
    loggedRefusals.add(refusal);
    logger[level]({ ...about, kind, error, attempts, outcome: state }, 'could not be written to the vendor');
    const isNotCarriedOut = !wasSent(error) || REFUSALS.has(error.code);
    const retry = { state, attempts, error: errorText(notice, error), not_before: clock.now() + pause } as const;
    const row = { ...retry, ...(isNotCarriedOut && { done: notice.done }) };
    // Without the pause, a comment that is still in flight would be posted twice.
    await retryUntilCommitted(context, () => store.commit((query) => postponeNotice(query, notice, row)), signal);
  }

  async function readTasks(): Promise<void> {
    const request = { now: clock.now(), usedShare: 0, lane: 'read', notBefore: 0 } as const;
    await logFailure(logger, () => store.commit((transaction) => enqueueTaskListRead(transaction, request)));
    context.outbox.notify();
  }

  return {
    jobs: [
      { name: 'tasks', when: needsTaskList(context) ? { everyMs: READ_TASKS_EVERY } : 'off', run: readTasks },
    ] satisfies readonly Job[],
    start() {
      if (running || names.length === 0) return;
      stopping = new AbortController();
      running = run(stopping.signal);
    },
    async stop() {
      stopping?.abort();
      context.writeBack.notify();
      await running;
      running = undefined;
    },
  };
}

async function logFailure<Result>(logger: Logger, work: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await work();
  } catch (error) {
    logger.error({ error: asSyncError(error) }, 'pending writes to vendors could not be read or stored');
    return undefined;
  }
}

/**
 * Lets refused writes be tried again: all of them at the start, when begun ones wait until they must have arrived; those for which the
 * credential lacked a right also after an hour, because it may have been granted.
 */
function createRetries({ store, clock }: WorkspaceContext) {
  let isStarted = false;
  let dueAt = Number.POSITIVE_INFINITY;
  return {
    scheduleRetry() {
      dueAt = Math.min(dueAt, clock.monotonic() + LONGEST_PAUSE);
    },
    /** Milliseconds. */
    untilDue: () => Math.max(0, dueAt - clock.monotonic()),
    async retryIfDue(): Promise<void> {
      if (!isStarted) await store.commit((transaction) => resumeNotices(transaction, clock.now()));
      else if (clock.monotonic() >= dueAt) await store.commit((transaction) => resumeForbidden(transaction));
      else return;
      isStarted = true;
      dueAt = Number.POSITIVE_INFINITY;
    },
  };
}

/**
 * Returns milliseconds. After an unknown outcome, a comment may still be in flight: a write that does not find it would
 * post it twice.
 */
function pauseAfter({ code, retryAfter = 0 }: SyncError, drawn: number): number {
  return Math.max(retryAfter, drawn, code === 'outcome_unknown' ? MAX_TIME_IN_FLIGHT : 0);
}

/** Stores that a write was carried out. A second write could undo what a person has done at the vendor since. */
function storeSuccess(
  context: WorkspaceContext,
  notice: NoticeRow,
  posted: PostedComment | undefined,
  signal: AbortSignal,
): Promise<void> {
  const settle = () => context.store.commit((transaction) => settleNotice(transaction, notice, posted));
  return retryUntilCommitted(context, settle, signal);
}

/** Returns the text to store. A rate limit does not replace an earlier error, which is a refusal if the notice is tried again. */
function errorText({ error: earlier }: NoticeRow, { code, message }: SyncError): string {
  return (code === 'rate_limited' && earlier) || `${code}: ${message}`.slice(0, 500);
}

type Send = (signal: AbortSignal) => Promise<PostedComment | undefined>;

/**
 * Returns the function that writes one comment, closing or commit status, and returns the posted comment. Returns
 * undefined if there is nothing to write, and nothing is written to an item that has left the scope of its connection.
 */
async function prepare(
  context: WorkspaceContext,
  notice: NoticeRow,
  workspaceId: string,
): Promise<Send | 'out of scope' | undefined> {
  const { item_key: key, kind, wanted, done, attempts } = notice;
  // A failed write may have been carried out, so nothing was ever written only if there was no attempt.
  if (wanted === null && done === null && attempts === 0) return undefined;
  const row = await findItem(context.store.query, key);
  const target = context.connections.find(({ name }) => name === notice.connection);
  if (!row || !target || row.gone === 1) return undefined;
  const { item } = readFields(row);
  if (target.covers?.(item) === false) return 'out of scope';
  const { connection, connector, writeBack } = target;
  const reference = connector.reference(item);
  if (kind === 'status') {
    const status = parseStatus(wanted);
    // Only the present head of an open pull request needs a status.
    if (!status || item.kind !== 'pull_request' || item.state !== 'open' || item.headSha !== status.sha)
      return undefined;
    return async (signal) => {
      await connection.status?.write(reference, { ...status, url: item.url }, signal);
      return undefined;
    };
  }
  const close = writeBack?.close;
  if (kind === 'close')
    return async (signal) => {
      await connection.close?.(reference, signal, typeof close === 'object' ? close.fields : undefined);
      return undefined;
    };
  const marker = `<!-- worksync:${workspaceId}:tasks -->`;
  // The previous comment may not exist, if its write failed. Then there is nothing to correct.
  const comment = wanted === null ? { marker, text: NOTHING_LINKED, isCorrection: true } : { marker, text: wanted };
  return async (signal) => connection.comment?.(reference, comment, signal);
}
