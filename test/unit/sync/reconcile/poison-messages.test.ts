import { expect, test } from 'vitest';
import type { DeliveryOrigin } from '../../../../src/model/delivery.ts';
import { SyncError } from '../../../../src/model/errors.ts';
import { appendDeliveries } from '../../../../src/store/deliveries/append-deliveries.ts';
import { quarantinedDeliveries, unpackBody } from '../../../../src/store/deliveries/inbox.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import type { ReconcileConnection, WorkerTranslator } from '../../../../src/sync/reconcile/context.ts';
import { createPoisonMessages, type PoisonMessages } from '../../../../src/sync/reconcile/process.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { reconcileOver } from '../../../support/harness/reconcile-over.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';
import { pull } from '../../../support/rows/items.ts';

/**
 * Deliveries that exceed their budget, or during which the process crashed. Bodies are JSON lists of numbers of pull requests;
 * `hard` exceeds the budget.
 */

const PAGE = 1024 * 1024 + 1;
const itemsOf = (body: Uint8Array) =>
  (JSON.parse(Buffer.from(body).toString()) as (number | 'hard')[]).map((identifier) => {
    if (identifier === 'hard') throw new SyncError('over_budget', 'more than 3000 ms of CPU');
    return pull({ identifier: String(identifier), key: `github:github.com:r1:pr:${identifier}` });
  });

interface Life {
  readonly clock?: TravellingClock;
  /** The wait before the translation of a suspected delivery. */
  readonly translation?: (body: string) => Promise<void>;
}

/** `worker` has the bodies that the worker thread translated, and `attempts` those of the pending rows at that time. */
function stageOver(store: Store, { clock, translation }: Life = {}) {
  const read: string[] = [];
  const attempts: number[] = [];
  const worker: WorkerTranslator = {
    async translate({ stored }) {
      const body = unpackBody(stored);
      read.push(body.toString().trim());
      await translation?.(body.toString());
      const rows = await states(store);
      attempts.push(...rows.filter(({ state }) => state === 'pending').map((row) => row.attempts));
      return { outcome: 'items', items: itemsOf(body) };
    },
    async elements(stored) {
      const elements = JSON.parse(unpackBody(stored).toString()) as unknown[];
      return elements.map((element) => ({
        body: Buffer.from(JSON.stringify([element])),
        content: `content of ${JSON.stringify(element)}`,
      }));
    },
  };
  const translate: ReconcileConnection['translate'] = ({ body }) => ({ outcome: 'items', items: itemsOf(body) });
  const reconcile = reconcileOver(store, { translate, worker, version: '1.0.0', ...(clock && { clock }) });
  return { worker: read, attempts, drain: () => reconcile.drain() };
}

async function append(store: Store, key: string, content: unknown, source: DeliveryOrigin = 'webhook', size = 0) {
  const body = Buffer.from(JSON.stringify(content).padEnd(size));
  await appendDeliveries(store.query, [{ connection: 'main', key, source, event: 'e', body }], 1);
}

const states = (store: Store) =>
  store.query.selectFrom('inbox').select(['delivery_key as key', 'state', 'attempts']).orderBy('id').execute();

const storedItems = async (store: Store) =>
  (await store.query.selectFrom('items').select('key').orderBy('key').execute()).map(({ key }) =>
    key.split(':').at(-1),
  );

test('only the faulty element of a page is quarantined, and the next page with it does not retry it', async () => {
  const store = await openTestStore();
  const stage = stageOver(store);
  await append(store, 'page', [1, 'hard', 2], 'poll', PAGE);
  await stage.drain();
  expect(await storedItems(store)).toEqual(['1', '2']);
  expect(await states(store)).toEqual([
    { key: 'page', state: 'applied', attempts: 0 },
    { key: 'part:content of "hard"', state: 'quarantined', attempts: 0 },
  ]);
  stage.worker.length = 0;
  await append(store, 'next page', [3, 'hard'], 'poll', PAGE);
  await stage.drain();
  expect(await storedItems(store)).toEqual(['1', '2', '3']);
  expect(stage.worker).toEqual(['[3,"hard"]', '[3]']);
});

/** Processes a delivery without a clean end. */
async function crashAtWork(store: Store): Promise<void> {
  await append(store, 'earlier', [0]);
  await stageOver(store).drain();
}

test('after a crash the pending deliveries are counted and then translated by the worker thread', async () => {
  const store = await openTestStore();
  await crashAtWork(store);
  await append(store, 'before', [1]);
  const next = stageOver(store);
  await next.drain();
  expect(next.worker).toEqual(['[1]']);
  expect(next.attempts).toEqual([1]);
  expect(await storedItems(store)).toEqual(['0', '1']);
  await append(store, 'after', [2]);
  await next.drain();
  expect(next.worker).toEqual(['[1]']);
});

/** Runs a process until it ends during the translation of a suspected delivery, or until no delivery is pending. */
async function live(store: Store, endsDuring: (body: string) => boolean): Promise<void> {
  const clock = createTravellingClock();
  let isOver = false;
  const translation = async (body: string) => {
    if (!endsDuring(body)) return;
    isOver = true;
    await new Promise(() => undefined);
  };
  void stageOver(store, { clock, translation })
    .drain()
    .finally(() => (isOver = true));
  while (!isOver) await clock.advance(1_000);
}

test('31 kills, each while a delivery is processed alone, quarantine none, and all are applied afterwards', async () => {
  const store = await openTestStore();
  await crashAtWork(store);
  for (let number = 1; number <= 40; number++) await append(store, `load ${number}`, [number]);
  for (let kill = 0; kill < 31; kill++) await live(store, () => true);
  await live(store, () => false);
  expect(new Set((await states(store)).map(({ state }) => state))).toEqual(new Set(['applied']));
});

test('a delivery that ends the process each time is quarantined by itself, and the others are processed meanwhile', async () => {
  const store = await openTestStore();
  await crashAtWork(store);
  await append(store, 'deadly', [1]);
  await append(store, 'behind it', [2]);
  const course: string[] = [];
  for (let life = 0; life < 6; life++) {
    await live(store, (body) => body === '[1]');
    const [, deadly, behind] = await states(store);
    course.push(`${deadly?.state} ${deadly?.attempts} ${behind?.state}`);
  }
  const lives = ['pending 2 applied', 'pending 3 applied', 'pending 4 applied', 'pending 5 applied'];
  expect(course).toEqual(['pending 1 pending', ...lives, 'quarantined 5 applied']);
  const reason = expect.stringContaining('ended 5 times');
  expect(await quarantinedDeliveries(store.query, 10)).toMatchObject([{ reason }]);
});

/** Deliveries of one batch. */
const BATCH = 2;

/** A store with pending deliveries, and their ids. */
async function waiting(count: number) {
  const store = await openTestStore();
  for (let number = 1; number <= count; number++) await append(store, String(number), {});
  const ids = (await store.query.selectFrom('inbox').select('id').orderBy('id').execute()).map(({ id }) => id);
  return { store, ids };
}

async function startAfter(store: Store, version = '1.0.0'): Promise<PoisonMessages> {
  const context = workspaceContext({ store, clock: createTravellingClock(), version });
  const poisonMessages = createPoisonMessages(context, BATCH);
  await poisonMessages.detect();
  return poisonMessages;
}

test.each<[after: string, expected: boolean[], isClean: boolean]>([
  ['an unclean end, the oldest deliveries of one batch', [true, true, false], false],
  ['a clean end, none', [false, false, false], true],
])('suspects after %s', async (_after, expected, isClean) => {
  const { store, ids } = await waiting(3);
  const first = await startAfter(store);
  await first.markBusy();
  if (isClean) await first.markIdle();
  const next = await startAfter(store);
  expect(ids.map((id) => next.isSuspected({ id }))).toEqual(expected);
});
