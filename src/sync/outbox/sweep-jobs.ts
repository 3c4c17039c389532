import { entity } from '../../model/change.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { yieldToEventLoop } from '../../platform/lib/concurrency.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import { findChange } from '../../store/changes/outbox-rows.ts';
import { readRecordsRoute } from '../../store/workspace/server-capabilities.ts';
import { enqueueReads } from '../../store/workspace/workspace-reads.ts';
import {
  beginSweep,
  nextSweepStep,
  readSweepPosition,
  recordsSwept,
  SWEEP_START,
  type Sweep,
  type SweepPosition,
  writeSweepPosition,
} from '../../store/workspace/workspace-sweeps.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { recordsPullRequests, type WorkspaceContext } from '../workspace-context.ts';

export const SWEEP = 'workspace.sweep';
const LINKS = 'workspace.links';
const RECORDS = 'workspace.records';

const DAY = 86_400_000;

/**
 * Returns the jobs that sweep the workspace: the lists, and one by one what no list contains.
 * The jobs only request reads, as changes of the lowest lane. Reconcile compares their answers with the known state.
 */
export function workspaceSweepJobs(context: WorkspaceContext): Job[] {
  const { config } = context;
  const when = config.workspace.sweep;
  return [
    { name: SWEEP, when, run: () => sweepLists(context) },
    { name: LINKS, when, run: (signal) => sweepUnlisted(context, signal) },
    ...(recordsPullRequests(config)
      ? [{ name: RECORDS, when: { everyMs: DAY }, run: () => checkRecordsRoute(context) }]
      : []),
  ];
}

/** A route that was closed more recently is not tried: the job runs at the first start too, where the list was refused just now. */
const CLOSED_RECENTLY = DAY / 2;

/** Requests the list of records if the workspace had no route for them, because it may have one now. */
async function checkRecordsRoute({ store, clock, outbox }: WorkspaceContext): Promise<void> {
  await store.commit(async (transaction) => {
    const { state, since } = await readRecordsRoute(transaction);
    if (state !== 'closed' || clock.now() - since < CLOSED_RECENTLY) return;
    await enqueueReads(transaction, [entity.readPullRequests], clock.now());
  });
  outbox.notify();
}

/**
 * Starts a sweep of the lists if none is running; the answers end it.
 * Requests a list again if a running sweep lacks it and its read is not pending any more.
 */
async function sweepLists({ store, clock, outbox, config }: WorkspaceContext): Promise<void> {
  await store.commit(async (transaction) => {
    const now = clock.now();
    const { isNew, sweep: begun } = await beginSweep(transaction, now);
    const areRecordsListed = recordsPullRequests(config) && (await readRecordsRoute(transaction)).state === 'open';
    const sweep = areRecordsListed ? begun : await withoutRecords(transaction, begun, now);
    const missing = [
      ...(sweep.tasks_at === null ? [entity.readTasks] : []),
      ...(sweep.records_at === null ? [entity.readPullRequests] : []),
    ];
    for (const list of missing) {
      // A pending read does not count for a new sweep, because it may have been requested before the sweep began.
      if (isNew || !(await findChange(transaction, list))) await enqueueReads(transaction, [list], now, 'backfill');
    }
  });
  outbox.notify();
}

/** Marks the records as swept if the workspace has none. Then the list of tasks alone ends the sweep. */
async function withoutRecords(query: Scope, sweep: Sweep, now: number): Promise<Sweep> {
  if (sweep.records_at !== null) return sweep;
  await recordsSwept(query, sweep, now);
  return { ...sweep, records_at: now };
}

/** The part of a day's quota for reads of what no list contains. */
const UNLISTED_SHARE = 0.02;
/** A run ends after this part of its interval, so that the next run starts in time. The position is stored. */
const RUN_SHARE = 0.9;
/** How often a run checks whether its last read was answered, milliseconds. */
const ANSWER_CHECK_EVERY = 30_000;

/** Reads one by one what no list contains, from the position of the last run, until the interval ends. */
async function sweepUnlisted(context: WorkspaceContext, signal: AbortSignal): Promise<void> {
  const { clock, config } = context;
  const pace = msPerRead(config.quota);
  const when = config.workspace.sweep;
  const interval = typeof when === 'object' && 'everyMs' in when ? when.everyMs : DAY;
  const until = clock.monotonic() + RUN_SHARE * interval;
  let position: SweepPosition | undefined = await resume(context);
  while (position && !signal.aborted) {
    await sleep(clock, Math.min(pace, Math.max(0, position.readAt + pace - clock.now())), signal);
    await waitForAnswer(context, position, signal);
    if (signal.aborted || clock.monotonic() >= until) return;
    position = await requestNext(context, position);
  }
}

function msPerRead({ requests, window }: WorkspaceContext['config']['quota']): number {
  return DAY / Math.max(1, Math.floor((UNLISTED_SHARE * requests * DAY) / window));
}

/** Returns the position of an unfinished sweep, or the start of a new one. */
async function resume({ store, clock }: WorkspaceContext): Promise<SweepPosition> {
  const last = await readSweepPosition(store.query);
  if (last && last.endedAt === null) return last;
  return { startedAt: clock.now(), endedAt: null, readAt: 0, read: 0, after: SWEEP_START };
}

/** Waits until the last read was answered, so that reads do not accumulate while the quota is used up. */
async function waitForAnswer(
  { store, clock }: WorkspaceContext,
  { after, read }: SweepPosition,
  signal: AbortSignal,
): Promise<void> {
  if (read === 0) return;
  while (!signal.aborted && (await findChange(store.query, readOf(after))))
    await sleep(clock, ANSWER_CHECK_EVERY, signal);
}

function readOf({ kind, name }: SweepPosition['after']): string {
  return kind === 'document' ? entity.readDocument(name.slice(entity.document('').length)) : entity.readLinks(name);
}

/** Requests the next read, and stores the new position with it. @returns the position; undefined at the end */
async function requestNext(
  { store, clock, outbox, logger }: WorkspaceContext,
  position: SweepPosition,
): Promise<SweepPosition | undefined> {
  const found = await findNext(store.query, position.after);
  if (found) {
    const now = clock.now();
    const next = { ...position, after: found, readAt: now, read: position.read + 1 };
    await store.commit(async (transaction) => {
      await enqueueReads(transaction, [readOf(found)], now, 'backfill');
      await writeSweepPosition(transaction, next);
    });
    outbox.notify();
    return next;
  }
  if (position.read === 0) return undefined;
  await store.commit((transaction) => writeSweepPosition(transaction, { ...position, endedAt: clock.now() }));
  logger.info({ read: position.read }, 'links of work items and documents checked');
  return undefined;
}

/** Searches the rows in small steps, and yields to the event loop between them. */
async function findNext(query: Scope, start: SweepPosition['after']): Promise<SweepPosition['after'] | undefined> {
  for (let after: SweepPosition['after'] | undefined = start; after; ) {
    const step = await nextSweepStep(query, after);
    if (step.found) return step.found;
    after = step.after;
    if (after) await yieldToEventLoop();
  }
  return undefined;
}
