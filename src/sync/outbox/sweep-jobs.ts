import { entity } from '../../model/change.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Job, Schedule } from '../../platform/lib/scheduler.ts';
import type { WakeSignal } from '../../platform/lib/wake-signal.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import type { Store } from '../../store/database.ts';
import { findChange } from '../../store/outbox-rows.ts';
import { readRecordsRoute } from '../../store/server-capabilities.ts';
import {
  nextSweepStep,
  readSweepPosition,
  SWEEP_START,
  type SweepPosition,
  writeSweepPosition,
} from '../../store/sweep-position.ts';
import { enqueueReads } from '../../store/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { beginSweep, recordsSwept, type Sweep } from '../../store/workspace-sweeps.ts';

export interface SweepJobsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly when: Schedule;
  /** Requests that the workspace allows in one window of so many milliseconds. */
  readonly quota: { readonly requests: number; readonly window: number };
  /** Whether any connection records its pull requests in the workspace. */
  readonly recordsPullRequests: boolean;
  /** Notified when a read was requested. */
  readonly outbox: WakeSignal;
}

export const SWEEP = 'workspace.sweep';
const LINKS = 'workspace.links';
const RECORDS = 'workspace.records';

const DAY = 86_400_000;
/** Part of a day's quota for reads of what no list contains. */
const SHARE = 0.02;
/** A run ends after this part of its interval, so that the next one begins in time; where it stands is kept. */
const OF_INTERVAL = 0.9;
/** How often the job checks whether its last read was answered, milliseconds. */
const LOOK_EVERY = 30_000;

/** Both only request reads: rows of the outbox in the lowest lane, whose answers reconcile compares with what is known. */
export function sweepJobs(deps: SweepJobsDeps): Job[] {
  return [
    { name: SWEEP, when: deps.when, run: () => sweep(deps) },
    { name: LINKS, when: deps.when, run: (signal) => takeTurn(deps, signal) },
    ...(deps.recordsPullRequests ? [{ name: RECORDS, when: { everyMs: DAY }, run: () => askForRecords(deps) }] : []),
  ];
}

/** A workspace without a route for records may have got one. */
async function askForRecords({ store, clock, outbox }: SweepJobsDeps): Promise<void> {
  await store.commit(async (transaction) => {
    if ((await readRecordsRoute(transaction)).state !== 'closed') return;
    await enqueueReads(transaction, [entity.readPullRequests], clock.now());
  });
  outbox.notify();
}

/**
 * Begins a round if none is running; the answers end it. If a running round lacks a read that nobody requests any more, requests
 * it again.
 */
async function sweep(deps: SweepJobsDeps): Promise<void> {
  const { store, clock, outbox } = deps;
  await store.commit(async (transaction) => {
    const now = clock.now();
    const begun = await beginSweep(transaction, now);
    const { isNew } = begun;
    const areRecordsListed = deps.recordsPullRequests && (await readRecordsRoute(transaction)).state === 'open';
    const round = areRecordsListed ? begun.sweep : await withoutRecords(transaction, begun.sweep, now);
    const lacking = [
      ...(round.tasks_at === null ? [entity.readTasks] : []),
      ...(round.records_at === null ? [entity.readPullRequests] : []),
    ];
    for (const list of lacking) {
      // One that is on its way may have been asked for before a new round.
      if (isNew || !(await findChange(transaction, list))) await enqueueReads(transaction, [list], now, 'backfill');
    }
  });
  outbox.notify();
}

/** Nothing is recorded in the workspace: the list of tasks alone ends the round. */
async function withoutRecords(query: Scope, round: Sweep, now: number): Promise<Sweep> {
  if (round.records_at !== null) return round;
  await recordsSwept(query, round, now);
  return { ...round, records_at: now };
}

/** Reads one after the other what no list contains, as far as the interval goes, and from where the last run stopped. */
async function takeTurn(deps: SweepJobsDeps, signal: AbortSignal): Promise<void> {
  const { clock, when } = deps;
  const pace = paceOf(deps.quota);
  const until = clock.monotonic() + OF_INTERVAL * (typeof when === 'object' && 'everyMs' in when ? when.everyMs : DAY);
  let turn = await goOn(deps);
  while (turn && !signal.aborted) {
    await sleep(clock, Math.min(pace, Math.max(0, turn.readAt + pace - clock.now())), signal);
    await untilAnswered(deps, turn, signal);
    if (signal.aborted || clock.monotonic() >= until) return;
    turn = await next(deps, turn);
  }
}

/** Milliseconds between two reads. */
function paceOf({ requests, window }: SweepJobsDeps['quota']): number {
  return DAY / Math.max(1, Math.floor((SHARE * requests * DAY) / window));
}

/** The turn that was interrupted, or a new one, where there is anything to read. */
async function goOn({ store, clock }: SweepJobsDeps): Promise<SweepPosition | undefined> {
  const last = await readSweepPosition(store.query);
  if (last && last.endedAt === null) return last;
  return { startedAt: clock.now(), endedAt: null, readAt: 0, read: 0, after: SWEEP_START };
}

/** A quota that is used up must not let reads pile up. */
async function untilAnswered(
  { store, clock }: SweepJobsDeps,
  { after, read }: SweepPosition,
  signal: AbortSignal,
): Promise<void> {
  if (read === 0) return;
  while (!signal.aborted && (await findChange(store.query, nameOf(after)))) await sleep(clock, LOOK_EVERY, signal);
}

function nameOf({ kind, name }: SweepPosition['after']): string {
  return kind === 'document' ? entity.readDocument(name.slice(entity.document('').length)) : entity.readLinks(name);
}

/** @returns the turn after one read more; undefined at its end */
async function next(
  { store, clock, outbox, logger }: SweepJobsDeps,
  turn: SweepPosition,
): Promise<SweepPosition | undefined> {
  let { after } = turn;
  for (;;) {
    const step = await nextSweepStep(store.query, after);
    if (step.found) {
      const now = clock.now();
      const found = { ...turn, after: step.found, readAt: now, read: turn.read + 1 };
      await store.commit(async (transaction) => {
        await enqueueReads(transaction, [nameOf(found.after)], now, 'backfill');
        await writeSweepPosition(transaction, found);
      });
      outbox.notify();
      return found;
    }
    if (!step.after) break;
    after = step.after;
    await yieldToEventLoop();
  }
  if (turn.read === 0) return undefined;
  await store.commit((transaction) => writeSweepPosition(transaction, { ...turn, endedAt: clock.now() }));
  logger.info({ read: turn.read }, 'links of work items and documents checked');
  return undefined;
}
