import { SyncError } from '../../../src/model/errors.ts';
import type { Item } from '../../../src/model/item.ts';
import type { Random } from '../../../src/platform/lib/clock.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';
import { appendDeliveries } from '../../../src/store/deliveries/append-deliveries.ts';
import { pendingDeliveries } from '../../../src/store/deliveries/inbox.ts';
import { dueFetches, settleFetch } from '../../../src/store/deliveries/wanted-fetches.ts';
import { highestTaskKeys } from '../../../src/store/tasks/stored-tasks.ts';
import {
  enqueueInitialReads,
  enqueueTaskListRead,
  tasksWereRead,
} from '../../../src/store/workspace/workspace-reads.ts';
import { prepareNext } from '../../../src/sync/outbox/claim.ts';
import { recover } from '../../../src/sync/outbox/outbox.ts';
import type { PreparedRequest } from '../../../src/sync/outbox/request.ts';
import { settle } from '../../../src/sync/outbox/settle.ts';
import { settleFailure } from '../../../src/sync/outbox/settle-failure.ts';
import { applyBatch } from '../../../src/sync/reconcile/apply-batch.ts';
import {
  type ConnectorFacts,
  createKeyHorizon,
  type ReconcileConnection,
  type Rules,
} from '../../../src/sync/reconcile/context.ts';
import { translateAll } from '../../../src/sync/reconcile/translate-deliveries.ts';
import type { OpenedStore } from './store.ts';

/**
 * The fate of a request: answered; carried out or not, and no answer; never left this machine; refused by a 503. `late`: no
 * answer, and whoever plays the server carries it out later.
 */
export type Outcome = 'answered' | 'lost after' | 'lost before' | 'late' | 'unsent' | 'failed after' | 'failed before';

interface InFlight {
  readonly prepared: PreparedRequest;
  readonly outcome: Outcome;
  readonly answer: () => unknown;
}

const EVEN: Random = { float: () => 0.5, uuid: () => '', bytes: (length) => Buffer.alloc(length) };

/** A connection whose deliveries are items as they are stored. */
export function itemSource(name: string, connector: ConnectorFacts): ReconcileConnection {
  return {
    ...{ name, connector, records: true },
    translate: ({ body }) => ({ outcome: 'items', items: [JSON.parse(Buffer.from(body).toString()) as Item] }),
    reference: ({ kind, key }) => ({ kind, key, locator: {} }),
  };
}

/**
 * The way from deliveries to the workspace, without HTTP: the real reconcile and the real preparing and settling of the outbox over
 * a real database. Whoever extends it plays the provider and the workspace.
 */
export abstract class PipelineWorld {
  readonly store: OpenedStore;
  readonly #sources: ReadonlyMap<string, ReconcileConnection>;
  readonly #rules: Rules;
  inFlight: InFlight[] = [];
  now = Date.UTC(2026, 0, 5, 9);
  #count = 0;

  constructor(store: OpenedStore, sources: readonly ReconcileConnection[], rules: Rules) {
    this.store = store;
    this.#sources = new Map(sources.map((source) => [source.name, source]));
    this.#rules = rules;
  }

  /** The server carries it out now; what it returns or throws is heard later. */
  protected abstract handle(prepared: PreparedRequest): unknown;

  async append(connection: string, source: 'webhook' | 'fetch' | 'workspace', content: unknown): Promise<void> {
    const body = Buffer.from(JSON.stringify(content));
    const delivery = { connection, key: `d${++this.#count}`, source, event: 'item', body };
    await appendDeliveries(this.store.query, [delivery], this.now);
  }

  async reconcile(): Promise<void> {
    const { query } = this.store;
    const sources = this.#sources;
    for (;;) {
      const pending = await pendingDeliveries(query, 3, 1_000_000);
      if (pending.length === 0) return;
      const keyHorizon = createKeyHorizon(await highestTaskKeys(query));
      const quiet = { usedShare: 0, liveStatuses: new Map(), logger: silentLogger };
      const context = { ...quiet, now: this.now, sources, keyHorizon, rules: this.#rules };
      const translated = await translateAll(pending, { query, sources, isSuspected: () => false });
      await this.store.commit((own) => applyBatch(own, translated, context));
    }
  }

  /** @param fetched the present state of an item */
  async fetchAll(fetched: (key: string) => Item): Promise<void> {
    for (const connection of this.#sources.keys())
      for (const wanted of await dueFetches(this.store.query, connection, this.now, 60_000, 10)) {
        await this.append(connection, 'fetch', fetched(wanted.reference.key));
        await settleFetch(this.store.query, wanted);
      }
  }

  /** @returns what was sent; undefined: nothing is to be sent */
  async send(outcome: Outcome = 'answered'): Promise<PreparedRequest | undefined> {
    const onlyReads = !(await tasksWereRead(this.store.query));
    const prepared = await this.store.commit((query) => prepareNext(query, { now: this.now, onlyReads }));
    if (!prepared) return undefined;
    const carriesOut = outcome === 'answered' || outcome.endsWith('after');
    this.inFlight.push({ prepared, outcome, answer: carriesOut ? this.#carriedOut(prepared) : () => undefined });
    return prepared;
  }

  #carriedOut(prepared: PreparedRequest): () => unknown {
    try {
      const answer = structuredClone(this.handle(prepared)) ?? null;
      return () => answer;
    } catch (error) {
      return () => {
        throw error;
      };
    }
  }

  async answer(pick = 0): Promise<void> {
    const [request] = this.inFlight.splice(pick % Math.max(1, this.inFlight.length), 1);
    if (!request) return;
    const context = { now: this.now, random: { ...EVEN, uuid: () => `${++this.#count}` }, usedShare: 0 };
    await this.store.commit(async (query) => {
      try {
        const body = request.answer();
        if (request.outcome !== 'answered') throw failureOf(request.outcome);
        await settle(query, request.prepared, body, context);
      } catch (error) {
        if (!(error instanceof SyncError)) throw error;
        // No change is at fault, so none needs approval.
        await settleFailure(query, request.prepared, error, { ...context, outage: true });
      }
    });
  }

  async kill(): Promise<void> {
    this.inFlight = [];
    await this.store.commit(async (query) => {
      await enqueueInitialReads(query, this.now, true);
      await recover(query, { now: this.now, random: EVEN, usedShare: 0 });
    });
  }

  async readTasks(now = this.now): Promise<void> {
    const wish = { now, usedShare: 0, lane: 'triage', notBefore: 0 } as const;
    await this.store.commit((query) => enqueueTaskListRead(query, wish));
  }

  async pump(fetched?: (key: string) => Item): Promise<void> {
    while (this.inFlight.length > 0) await this.answer();
    await this.reconcile();
    if (fetched) await this.fetchAll(fetched);
    while (await this.send()) await this.answer();
    await this.reconcile();
  }

  async isQuiet(): Promise<boolean> {
    const { query } = this.store;
    const fetches = [...this.#sources.keys()].map((name) => dueFetches(query, name, this.now, 60_000, 1));
    const left = [
      ...(await pendingDeliveries(query, 1, 1)),
      ...(await Promise.all(fetches)).flat(),
      ...(await query.selectFrom('outbox').select('entity').execute()),
    ];
    return left.length === 0 && this.inFlight.length === 0;
  }

  /** Everything is answered, and nobody does anything else. @param pass lets time pass */
  async comeToRest(pass: () => void | Promise<void>, fetched?: (key: string) => Item): Promise<void> {
    for (let round = 0; round < 60; round++) {
      await pass();
      await this.pump(fetched);
      if (await this.isQuiet()) return;
    }
    throw new Error('does not come to rest');
  }
}

function failureOf(outcome: Outcome): SyncError {
  if (outcome === 'unsent') return new SyncError('unreachable', 'no connection');
  if (outcome.startsWith('failed')) return new SyncError('server_failed', 'HTTP 503', { status: 503 });
  return new SyncError('outcome_unknown', 'no answer');
}
