import { asSyncError, SyncError } from '../errors/sync-error.ts';
import type { Bell } from '../lib/bell.ts';
import { type Clock, sleep } from '../lib/clock.ts';
import { DatabaseFault } from '../lib/database-fault.ts';
import type { Logger } from '../lib/logger.ts';
import type { Meter } from '../lib/meter.ts';
import { createPortion } from '../lib/portion.ts';
import { backoff, type Random } from '../lib/random.ts';
import type { Stage } from '../lib/stage.ts';
import { letOthersIn, nextTurn } from '../lib/turn.ts';
import { highestTaskKeys } from '../store/cached-tasks.ts';
import type { Store } from '../store/database.ts';
import {
  countAttempt,
  lastOfOldest,
  type PendingDelivery,
  pendingDeliveries,
  retryQuarantined,
  settleDeliveries,
} from '../store/inbox.ts';
import { readMeta, writeMeta } from '../store/meta.ts';
import { applyBatch, type BatchResult, type Surroundings } from './batch.ts';
import type { Sources } from './context.ts';
import type { Rules } from './item-rules.ts';
import { type KeyHorizon, keyHorizon } from './key-horizon.ts';
import { lookedAt, nextToLookAt } from './look-again.ts';
import type { GuardLimits } from './mass-change-guard.ts';
import { partsOf, reasonOf, type Translated, translateAll, weightOf } from './translate-deliveries.ts';

export interface ReconcileOptions {
  /** The version of the program: another version tries again what took too much. */
  readonly version: string;
  readonly store: Store;
  readonly sources: Sources;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly meter: Meter;
  /** u of the long quota window, 0..1. */
  readonly usedShare: () => number;
  /** Within which every change is to be seen, milliseconds; absent: as soon as the quota makes sensible. */
  readonly visibility?: number;
  /** Whether deliveries come in faster than they can be stored one by one. */
  readonly isCrowded: () => boolean;
  /** Absent: those that hold where nothing is configured. */
  readonly rules?: Rules;
  /** Absent: nothing is held. */
  readonly guard?: GuardLimits;
  /** Rung by whoever appends deliveries. */
  readonly inbox: Bell;
  /** Rung when the outbox may have something new. */
  readonly outbox: Bell;
  /** Rung when objects are to be fetched. */
  readonly fetches: Bell;
  /** Rung when something may have to be written to a vendor. */
  readonly writeBack?: Bell;
}

export interface Reconcile extends Stage {
  /** Processes everything that is pending now; resolves when nothing is. */
  drain(): Promise<void>;
}

/** Deliveries read at once, and bytes of them: what the main thread translates in some milliseconds. */
const BATCH = 100;
const BATCH_BYTES = 1024 * 1024;

/**
 * Items of one transaction: enough to share its cost, few enough not to hold up intake, also where the next ones have all
 * changed and cost ten times as much.
 */
const ITEMS = { least: 10, most: 40 };

/** How long a crowd of senders may keep reconcile from its work, and how often it looks up, milliseconds. */
const LONGEST_LAG = 5_000;
const LOOK = 10;

/** A delivery that fails on its own this often is put into quarantine. */
const MOST_ATTEMPTS = 3;

/** A delivery over which the process ended this often, each time while it was processed alone, is put into quarantine. */
const MOST_ENDS = 5;

/** Names of facts: `yes` while a process works on the inbox, and which version tried what is in quarantine. */
const AT_WORK = 'reconcile.at_work';
const TRIED_BY = 'reconcile.tried_by';

/**
 * The stage between inbox and outbox. It takes pending deliveries, oldest first, in batches; a batch is one
 * transaction. When one fails, its deliveries are tried one by one, so that only the one at fault waits.
 */
export function createReconcile(options: ReconcileOptions): Reconcile {
  const { store, clock, logger, meter } = options;
  let horizon: KeyHorizon | undefined;
  let stopping: AbortController | undefined;
  let running: Promise<void> | undefined;
  /** Up to this id deliveries may have ended the process before; undefined: not looked up yet. */
  let suspectsUntil: number | undefined;
  /** Whether it stands in the database that a process works on the inbox. */
  let isNoted = false;
  const told = createPortion(clock, ITEMS);
  const lookedAgain = createPortion(clock, ITEMS);

  async function run(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      try {
        await lookAgain(signal);
        await drain(signal);
        failures = 0;
        await options.inbox.next();
      } catch (error) {
        // The database does not take writes just now, for example because the disk is full.
        logger.error({ error: asSyncError(error) }, 'reconcile cannot write and waits');
        await sleep(clock, backoff(options.random, failures++, 500, 5_000), signal);
      }
    }
  }

  /** With changed rules open items may need other links: the guard holds a mass of them. */
  async function lookAgain(signal: AbortSignal): Promise<void> {
    const digest = options.rules?.digest;
    while (digest !== undefined && !signal.aborted) {
      const keys = await nextToLookAt(store.query, digest, lookedAgain.size());
      if (keys === undefined) return;
      await lookAt(keys, digest);
      options.outbox.ring();
      options.writeBack?.ring();
      await letOthersIn();
    }
  }

  async function lookAt(keys: readonly string[], digest: string): Promise<void> {
    const surroundings = await around();
    try {
      await store.commitRelaxed(async (transaction) => {
        await lookedAgain.work(keys.length, () => applyBatch(transaction, [], moment(), surroundings, keys));
        await lookedAt(transaction, digest, keys);
      });
    } catch (error) {
      if (!isFaultOfDelivery(error)) throw error;
      // They are evaluated when they change; nothing else waits for them.
      logger.error({ error: asSyncError(error), from: keys[0], items: keys.length }, 'items could not be re-evaluated');
      await store.commit((transaction) => lookedAt(transaction, digest, keys));
    }
  }

  function moment() {
    return { now: clock.now(), usedShare: options.usedShare(), visibility: options.visibility };
  }

  async function around(): Promise<Surroundings> {
    const { sources, rules, guard } = options;
    horizon ??= keyHorizon(await highestTaskKeys(store.query));
    return { sources, horizon, logger, rules, guard };
  }

  /**
   * After an unclean end the batch that was in flight is still pending: it is among the oldest. Another version may read
   * better what took this one too long.
   */
  async function lookBack(): Promise<void> {
    if (suspectsUntil !== undefined) return;
    const wasAtWork = (await readMeta(store.query, AT_WORK)) === 'yes';
    const last = wasAtWork ? await lastOfOldest(store.query, BATCH) : undefined;
    const isOther = (await readMeta(store.query, TRIED_BY)) !== options.version;
    if (isOther) {
      await retryQuarantined(store, 'costly');
      // Killed before this, it tries the rest at the next start.
      await writeMeta(store.query, TRIED_BY, options.version);
    }
    isNoted = wasAtWork;
    suspectsUntil = last ?? 0;
  }

  /** Before the first delivery is touched; a process that finds none writes nothing. */
  async function noteWork(): Promise<void> {
    if (isNoted) return;
    await writeMeta(store.query, AT_WORK, 'yes');
    isNoted = true;
  }

  function isSuspect({ id }: PendingDelivery): boolean {
    return id <= (suspectsUntil ?? 0);
  }

  async function drain(signal?: AbortSignal): Promise<void> {
    await lookBack();
    const patientUntil = clock.monotonic() + LONGEST_LAG;
    for (let isFirst = true; !signal?.aborted; isFirst = false) {
      const pending = await pendingDeliveries(store.query, BATCH, BATCH_BYTES);
      if (pending.length === 0) return;
      if (!isFirst) await letOthersIn();
      await noteWork();
      if (signal) await giveWay(patientUntil, signal);
      const suspects = pending.filter(isSuspect);
      for (const delivery of suspects) await takeOverSuspect(delivery);
      const others = pending.slice(suspects.length);
      if (others.length > 0) await takeOver(others);
    }
  }

  /**
   * Senders wait for their 2xx, and nobody waits for reconcile: in a burst intake goes first. A burst that lasts is
   * shared: a batch, then whoever has come meanwhile.
   */
  async function giveWay(until: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && options.isCrowded() && clock.monotonic() < until) await sleep(clock, LOOK, signal);
  }

  /** Alone, and with the attempt committed before: so a text that ends the process again is recognised. */
  async function takeOverSuspect(delivery: PendingDelivery): Promise<void> {
    if (delivery.attempts >= MOST_ENDS) {
      const message = `the process ended ${MOST_ENDS} times while it processed this delivery`;
      return quarantine(delivery, new SyncError('over_budget', message));
    }
    await countAttempt(store.query, [delivery.id]);
    await takeOver([delivery]);
  }

  async function takeOver(pending: readonly PendingDelivery[]): Promise<void> {
    const translated = await translateAll(pending, { query: store.query, sources: options.sources, isSuspect });
    const parts = translated.flatMap((each) => partsOf(each, ITEMS.least));
    const failed = new Set<number>();
    for (let first = 0; first < parts.length; ) {
      await (first > 0 ? letOthersIn() : nextTurn());
      const portion = nextPortion(parts.slice(first), told.size());
      await takeOverPortion(portion, failed);
      first += portion.length;
    }
  }

  /** @param failed deliveries of which a part failed: no further part of them is to settle them */
  async function takeOverPortion(parts: readonly Translated[], failed: Set<number>): Promise<void> {
    const portion = parts.filter(({ delivery }) => !failed.has(delivery.id));
    if (portion.length === 0) return;
    const deliveries = portion.map(({ delivery }) => delivery);
    try {
      report(deliveries, await apply(portion));
    } catch (error) {
      if (!isFaultOfDelivery(error)) throw error;
      if (portion.length > 1) for (const each of portion) await takeOverPortion([each], failed);
      else await retryOrQuarantine(deliveries[0] as PendingDelivery, error, failed);
    }
  }

  async function apply(portion: readonly Translated[]): Promise<BatchResult> {
    const surroundings = await around();
    const items = portion.reduce((sum, each) => sum + weightOf(each), 0);
    // Until the commit is on disk the deliveries count as pending, and nothing that came of them was sent: a request is
    // committed with a sync before it leaves.
    return store.commitRelaxed((transaction) =>
      told.work(items, () => applyBatch(transaction, portion, moment(), surroundings)),
    );
  }

  async function retryOrQuarantine(delivery: PendingDelivery, error: unknown, failed: Set<number>): Promise<void> {
    failed.add(delivery.id);
    logger.error({ delivery: delivery.id, error: asSyncError(error) }, 'delivery could not be applied');
    if (delivery.attempts + 1 >= MOST_ATTEMPTS) return quarantine(delivery, asSyncError(error));
    // The attempt of a suspect is counted already.
    if (!isSuspect(delivery)) await countAttempt(store.query, [delivery.id]);
  }

  async function quarantine(delivery: PendingDelivery, error: SyncError): Promise<void> {
    const verdict = { id: delivery.id, state: 'quarantined', reason: reasonOf(error) } as const;
    await settleDeliveries(store.query, [verdict], clock.now());
    meter.count('deliveries_total', { connection: delivery.connection, outcome: 'quarantined' });
  }

  function report(pending: readonly PendingDelivery[], result: BatchResult): void {
    const connections = new Map(pending.map(({ id, connection }) => [id, connection]));
    for (const { id, state, reason } of result.verdicts) {
      const connection = connections.get(id) ?? '';
      meter.count('deliveries_total', { connection, outcome: state });
      logger.debug({ delivery: id, connection, outcome: state, reason }, 'delivery processed');
    }
    if (result.tasksChanged) horizon = undefined;
    if (result.evaluated > 0 || result.answersTaken) options.outbox.ring();
    if (result.evaluated > 0 || result.answersTaken) options.writeBack?.ring();
    if (result.fetchesAsked > 0) options.fetches.ring();
  }

  return {
    drain: () => drain(),
    start() {
      if (running) return;
      stopping = new AbortController();
      running = run(stopping.signal);
    },
    async stop() {
      stopping?.abort();
      options.inbox.ring();
      await running;
      running = undefined;
      // A database that takes no writes now is taken for an unclean end: that costs time only.
      if (isNoted && suspectsUntil !== undefined) await writeMeta(store.query, AT_WORK, 'no').catch(() => undefined);
      isNoted = false;
      suspectsUntil = undefined;
    },
  };
}

/** The first of them, with no more than so many items together, but always at least one. */
function nextPortion(translated: readonly Translated[], items: number): readonly Translated[] {
  let sum = 0;
  const end = translated.findIndex((each, index) => {
    sum += weightOf(each);
    return index > 0 && sum > items;
  });
  return end < 0 ? translated : translated.slice(0, end);
}

/** A database that cannot write fails every delivery alike: then none of them is at fault. */
function isFaultOfDelivery(error: unknown): boolean {
  return !(error instanceof DatabaseFault);
}
