import type { CloseFields, Connection } from '../../connectors/connector.ts';
import { MAX_TIME_IN_FLIGHT } from '../../model/change.ts';
import type { ErrorCode } from '../../model/errors/codes.ts';
import { asSyncError, type SyncError, wasSent } from '../../model/errors/sync-error.ts';
import type { Item, ItemReference } from '../../model/item.ts';
import type { PostedComment } from '../../model/notice.ts';
import { parseStatus } from '../../model/notice.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import { onClockSetBack } from '../../platform/lib/clock-set-back.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import { backoff, type Random } from '../../platform/lib/random.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import type { Stage } from '../../platform/lib/stage.ts';
import { createWakeSignal, type WakeSignal } from '../../platform/lib/wake-signal.ts';
import type { Store } from '../../store/database.ts';
import { findItem, readFields } from '../../store/items.ts';
import {
  beginNotice,
  clampNoticeTimes,
  dueNotices,
  type NoticeRow,
  nextNotice,
  postponeNotice,
  resumeNotices,
  settleNotice,
} from '../../store/notices.ts';
import { enqueueTaskListRead } from '../../store/workspace-reads.ts';
import type { Pauses } from '../intake/pauses.ts';

/** A connection to which something may be written. */
export interface WritableConnection {
  readonly name: string;
  readonly connection: Pick<Connection, 'comment' | 'close' | 'status'>;
  /** Values of fields that closing fills in. */
  readonly closeFields?: CloseFields | undefined;
  reference(item: Item): ItemReference;
}

export interface WriteBackDeps {
  readonly store: Store;
  /** Those for which it is switched on. */
  readonly connections: readonly WritableConnection[];
  readonly pauses: Pauses;
  /** Undefined until the workspace has told it. */
  readonly workspaceId: () => Promise<string | undefined>;
  /**
   * How often the task list is read to see which tasks are finished, milliseconds; undefined if nothing needs it, or the
   * workspace's own webhooks report it.
   */
  readonly readTasksEvery?: number;
  readonly outbox: WakeSignal;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

export interface WriteBack extends Stage {
  /** Notified after a commit that may contain a notice. */
  readonly wakeSignal: WakeSignal;
  readonly jobs: readonly Job[];
}

const LONGEST_PAUSE = 3_600_000;
const FIRST_PAUSE = 5_000;
/** The workspace's id comes with the first list of tasks. */
const ID_PAUSE = 30_000;

/** The vendor has answered that it did not carry it out. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  'rate_limited',
  'unauthorized',
  'consent_needed',
  'forbidden',
  'not_found',
  'conflict',
  'refused',
]);

/** The comment of an item that is linked to no task any more. */
const NOTHING_LINKED = 'Not linked to a task any more.';

/**
 * The stage that writes notices of reconcile to vendors. A comment carries a marker and is updated in place, what is
 * closed is left closed, and a status replaces the one of its name: so a write with unknown outcome is simply written again, once it
 * must have arrived.
 */
export function createWriteBack(deps: WriteBackDeps): WriteBack {
  const { store, clock, logger, pauses } = deps;
  const wakeSignal = createWakeSignal();
  const names = deps.connections.map(({ name }) => name);
  const left = (connection: string) => pauses.left(connection, 'fetch');
  const free = () => names.filter((name) => left(name) === 0);
  const refusals = new Set<string>();
  const mindTheClock = onClockSetBack(clock, () => store.commit((query) => clampNoticeTimes(query, clock.now())));
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;

  async function run(signal: AbortSignal): Promise<void> {
    let isTakenUp = false;
    const takeUp = async () => {
      await store.commit((transaction) => resumeNotices(transaction, clock.now()));
      isTakenUp = true;
    };
    while (!signal.aborted) {
      const pause = await quietly(async () => {
        if (!isTakenUp) await takeUp();
        return look(signal);
      });
      await waitFor(clock, pause ?? FIRST_PAUSE, wakeSignal, signal);
    }
  }

  async function quietly<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await work();
    } catch (error) {
      logger.error({ error: asSyncError(error) }, 'pending writes to vendors could not be read or stored');
      return undefined;
    }
  }

  /** @returns milliseconds until the next check without a wake-up; Infinity: only a wake-up starts one */
  async function look(signal: AbortSignal): Promise<number> {
    await mindTheClock();
    const due = await dueNotices(store.query, free(), clock.now());
    const workspace = due.length === 0 ? undefined : await deps.workspaceId();
    // The marker of a comment has the id in it; a commit status has none.
    const isReady = ({ kind }: NoticeRow) => kind === 'status' || workspace !== undefined;
    for (const notice of due.filter(isReady)) {
      if (signal.aborted) return 0;
      // Another one may have been refused by a limit just now.
      if (left(notice.connection) === 0) await write(notice, workspace ?? '', signal);
    }
    return due.every(isReady) ? untilNext() : ID_PAUSE;
  }

  async function untilNext(): Promise<number> {
    const next = await nextNotice(store.query, free());
    const waits = next === undefined ? [] : [Math.min(LONGEST_PAUSE, Math.max(0, next - clock.now()))];
    return Math.min(...waits, ...names.map(left).filter((ms) => ms > 0));
  }

  async function write(notice: NoticeRow, workspace: string, signal: AbortSignal): Promise<void> {
    const { item_key: item, kind, connection } = notice;
    try {
      const send = await prepare(deps, notice, workspace);
      if (send && !(await store.commit((transaction) => beginNotice(transaction, notice)))) return;
      const standing = await send?.(signal);
      await store.commit((transaction) => settleNotice(transaction, notice, standing));
      logger.info({ item, kind, connection }, 'written to the vendor');
    } catch (thrown) {
      if (signal.aborted) return;
      await postpone(notice, asSyncError(thrown));
    }
  }

  async function postpone(notice: NoticeRow, error: SyncError): Promise<void> {
    const { item_key: item, kind, connection } = notice;
    // A limit is the connection's matter: the notice keeps its place.
    const isLimited = pauses.recordFailure(connection, error, 'fetch') > 0;
    const attempts = notice.attempts + (isLimited ? 0 : 1);
    const pause = isLimited ? 0 : pauseAfter(error, backoff(deps.random, attempts, FIRST_PAUSE, LONGEST_PAUSE));
    const state = error.verdict === 'never' ? 'refused' : 'waiting';
    const text = `${error.code}: ${error.message}`.slice(0, 500);
    const told = `${connection} ${kind} ${error.code}`;
    // A right that is missing is missing for all items: it is told once.
    const level = state === 'refused' && kind === 'status' && refusals.has(told) ? 'debug' : 'warn';
    refusals.add(told);
    logger[level]({ item, kind, connection, error, attempts, outcome: state }, 'could not be written to the vendor');
    const isUndone = !wasSent(error) || REFUSALS.has(error.code);
    const retry = { state, attempts, error: text, not_before: clock.now() + pause } as const;
    const row = { ...retry, ...(isUndone && { done: notice.done }) };
    // By a commit: one that has lost the workspace leaves no failure to its owner.
    await store.commit((transaction) => postponeNotice(transaction, notice, row));
  }

  async function readTasks(): Promise<void> {
    const wish = { now: clock.now(), usedShare: 0, lane: 'read', notBefore: 0 } as const;
    await quietly(() => store.commit((transaction) => enqueueTaskListRead(transaction, wish)));
    deps.outbox.notify();
  }

  const everyMs = deps.readTasksEvery;
  return {
    wakeSignal,
    jobs: [{ name: 'tasks', when: everyMs === undefined ? 'off' : { everyMs }, run: readTasks }],
    start() {
      if (running || names.length === 0) return;
      stopping = new AbortController();
      running = run(stopping.signal);
    },
    async stop() {
      stopping?.abort();
      wakeSignal.notify();
      await running;
      running = undefined;
    },
  };
}

/** A comment that may still be on its way would be there twice if it were looked for at once, not found, and written again. */
function pauseAfter({ code, retryAfter = 0 }: SyncError, drawn: number): number {
  return Math.max(retryAfter, drawn, code === 'outcome_unknown' ? MAX_TIME_IN_FLIGHT : 0);
}

/**
 * One comment, one closing, or one commit status.
 *
 * @returns what sends it, with what stands there then, where it is a comment; undefined where nothing is to be sent
 */
async function prepare(
  deps: Pick<WriteBackDeps, 'store' | 'connections'>,
  notice: NoticeRow,
  workspace: string,
): Promise<((signal: AbortSignal) => Promise<PostedComment | undefined>) | undefined> {
  const { item_key: key, kind, wanted, done, attempts } = notice;
  // Nothing was ever written, and nothing is desired. A failed write may have been carried out.
  if (wanted === null && done === null && attempts === 0) return undefined;
  const row = await findItem(deps.store.query, key);
  const target = deps.connections.find(({ name }) => name === notice.connection);
  if (!row || !target || row.gone === 1) return undefined;
  const { item } = readFields(row);
  const reference = target.reference(item);
  const { connection } = target;
  if (kind === 'status') {
    const status = parseStatus(wanted);
    // Only the head of an open pull request counts: people have gone on.
    if (!status || item.kind !== 'pull_request' || item.state !== 'open' || item.headSha !== status.sha)
      return undefined;
    return async (signal) => {
      await connection.status?.write(reference, { ...status, url: item.url }, signal);
      return undefined;
    };
  }
  if (kind === 'close')
    return async (signal) => {
      await connection.close?.(reference, signal, target.closeFields);
      return undefined;
    };
  const marker = `<!-- worksync:${workspace}:tasks -->`;
  // Nobody knows whether the one before arrived: where it did not, there is nothing to take back.
  const comment = wanted === null ? { marker, text: NOTHING_LINKED, isCorrection: true } : { marker, text: wanted };
  return async (signal) => connection.comment?.(reference, comment, signal);
}

/** Resolves when the time has passed or the wake signal fires. */
async function waitFor(clock: Clock, ms: number, wakeSignal: WakeSignal, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  if (ms === Number.POSITIVE_INFINITY) return wakeSignal.wait();
  const woken = new AbortController();
  const timer = sleep(clock, ms, AbortSignal.any([signal, woken.signal]));
  await Promise.race([timer, wakeSignal.wait()]);
  woken.abort();
}
