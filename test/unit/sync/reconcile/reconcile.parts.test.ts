import { sql } from 'kysely';
import { expect, onTestFinished, test } from 'vitest';
import { appendDeliveries } from '../../../../src/store/append-deliveries.ts';
import { changesInState } from '../../../../src/store/outbox-rows.ts';
import type { GuardLimits, ReconcileConnection } from '../../../../src/sync/reconcile/context.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { reconcileOver } from '../../../support/harness/reconcile-over.ts';
import type { OpenedStore } from '../../../support/harness/store.ts';
import { ON_POSTGRES } from '../../../support/postgres/store-place.ts';
import { pull } from '../../../support/rows/items.ts';

/** A delivery with many items is processed in parts, and the last part settles it. */

const FIRST = Date.UTC(2026, 0, 1);
const SECOND = Date.UTC(2026, 0, 2);

/** Numbers of pull requests, and when each was changed. */
type Page = readonly (readonly [number: number, updatedAt: number])[];

const pageOf = (from: number, to: number, updatedAt: number): Page =>
  Array.from({ length: to - from + 1 }, (_, index) => [from + index, updatedAt]);

const translate: ReconcileConnection['translate'] = ({ body }) => ({
  outcome: 'items',
  items: (JSON.parse(body.toString()) as Page).map(([number, updatedAt]) =>
    pull({ identifier: String(number), key: `github:github.com:r1:pr:${number}`, updatedAt }),
  ),
});

async function open(
  guard?: GuardLimits,
): Promise<{ store: OpenedStore; statements: string[]; drain(): Promise<void> }> {
  const statements: string[] = [];
  const store = await openTestStore({ onStatement: (statement) => statements.push(statement) });
  const reconcile = reconcileOver(store, { translate, start: SECOND, guard });
  return { store, statements, drain: () => reconcile.drain() };
}

async function append(store: OpenedStore, key: string, page: Page, at = SECOND): Promise<void> {
  const body = Buffer.from(JSON.stringify(page));
  const delivery = { connection: 'main', key, source: 'poll', event: 'list', body } as const;
  await appendDeliveries(store.query, [delivery], at);
}

async function states(store: OpenedStore): Promise<string[]> {
  const rows = await store.query.selectFrom('inbox').select('state').orderBy('id').execute();
  return rows.map(({ state }) => state);
}

async function items(store: OpenedStore): Promise<number> {
  return (await store.query.selectFrom('items').select('key').execute()).length;
}

/** Counts the items that a transaction writes: rows of its statements, with values, or with parameters. */
function rowsWrittenIn(transaction: string): number {
  const [, ...texts] = transaction.split('insert into "items"');
  const inserts = ON_POSTGRES ? texts.map((text) => text.split('\n', 1)) : texts;
  return inserts.join('').match(/\('github:github\.com:r1:pr:\d+', 'pull_request'|\(\$\d+, /g)?.length ?? 0;
}

/** Makes the database reject items whose keys end with `end`. Returns the function that ends this. */
async function refuseItem({ database }: OpenedStore, end: string): Promise<() => Promise<void>> {
  const run = (text: string) => sql.raw(text).execute(database);
  if (!ON_POSTGRES) {
    await run(`create trigger refuse before insert on items when new.key like '%${end}'
      begin select raise(abort, 'not this one'); end`);
    return async () => void (await run('drop trigger refuse'));
  }
  await run(
    `create function refuse() returns trigger as $$ begin raise exception 'not this one'; end $$ language plpgsql`,
  );
  await run(
    `create trigger refuse before insert on items for each row when (new.key like '%${end}') execute function refuse()`,
  );
  return async () => void (await run('drop function refuse cascade'));
}

test('a page of many items takes several transactions of at most 40 items', async () => {
  const { store, statements, drain } = await open();
  await append(store, 'page', pageOf(1, 90, FIRST));
  statements.length = 0;
  await drain();
  const transactions = statements
    .join('\n')
    .split(/^begin.*$/m)
    .slice(1);
  const written = transactions.map(rowsWrittenIn).filter((count) => count > 0);
  expect(written.length).toBeGreaterThan(1);
  expect(Math.max(...written)).toBeLessThanOrEqual(40);
  expect([await items(store), await states(store)]).toEqual([90, ['applied']]);
});

test('a delivery is superseded only if all its parts are', async () => {
  const { store, drain } = await open();
  await append(store, 'new', pageOf(1, 90, SECOND));
  await append(store, 'old', pageOf(1, 90, FIRST));
  await append(store, 'first is new', [...pageOf(100, 100, FIRST), ...pageOf(1, 90, FIRST)]);
  await append(store, 'last is new', [...pageOf(1, 90, FIRST), ...pageOf(101, 101, FIRST)]);
  await drain();
  expect(await states(store)).toEqual(['applied', 'superseded', 'applied', 'applied']);
});

test('a delivery with a failed part is not settled by a later part', async () => {
  const { store, drain } = await open();
  // The items are processed from the last number to the first.
  onTestFinished(await refuseItem(store, ':61'));
  await append(store, 'page', pageOf(1, 90, FIRST));
  await append(store, 'next', pageOf(91, 95, FIRST));
  await drain();
  expect(await states(store)).toEqual(['quarantined', 'applied']);
  expect(await items(store)).toBe(20 + 5);
});

test('a retried delivery does not repeat the changes of its applied parts', async () => {
  const { store, drain } = await open();
  await append(store, 'page', pageOf(1, 90, FIRST));
  const acceptItem = await refuseItem(store, ':50');
  await drain();
  await acceptItem();
  await store.query.updateTable('inbox').set({ state: 'pending', attempts: 0 }).execute();
  await drain();
  expect([await items(store), await states(store)]).toEqual([90, ['applied']]);
  const entities = await store.query.selectFrom('outbox').select('entity').execute();
  expect(new Set(entities.map(({ entity }) => entity)).size).toBe(90);
});

test('the changes of pages are due from the highest number to the lowest, and the guard holds the lowest', async () => {
  const unlimited = Number.POSITIVE_INFINITY;
  const { store, drain } = await open({ creations: 200, removals: unlimited, repairs: unlimited, statuses: 50 });
  // A first poll reads the pages from the last to the first; each lists the oldest item first.
  for (const [index, from] of [201, 101, 1].entries())
    await append(store, `page ${index}`, pageOf(from, from + 99, FIRST), SECOND - 3_000 + index * 1_000);
  await drain();
  const numbersOf = async (state: 'pending' | 'held') =>
    (await changesInState(store.query, state, 300)).map(({ entity }) => Number(entity.split('/').at(-1)));
  const down = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, index) => from - index);
  expect(await numbersOf('pending')).toEqual(down(300, 101));
  expect(await numbersOf('held')).toEqual(down(100, 1));
});
