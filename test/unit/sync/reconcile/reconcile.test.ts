import { sql } from 'kysely';
import { describe, expect, onTestFinished, test } from 'vitest';
import { entity } from '../../../../src/model/change.ts';
import { DatabaseFault } from '../../../../src/platform/database/database-fault.ts';
import { createWakeSignal } from '../../../../src/platform/lib/clock.ts';
import { type LogFields, silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { blankEntity, findEntities, saveEntity } from '../../../../src/store/changes/entities.ts';
import { changesInState } from '../../../../src/store/changes/outbox-rows.ts';
import { appendDeliveries } from '../../../../src/store/deliveries/append-deliveries.ts';
import { itemsAtUrl, itemsByDisplayName } from '../../../../src/store/items/items.ts';
import { saveTask } from '../../../../src/store/tasks/stored-tasks.ts';
import type { Store } from '../../../../src/store/workspace-scope.ts';
import { applyBatch } from '../../../../src/sync/reconcile/apply-batch.ts';
import {
  createRules,
  type GuardLimits,
  PLAIN_RULES,
  type ReconcileConnection,
  type RulesInput,
} from '../../../../src/sync/reconcile/context.ts';
import { createBatchContexts } from '../../../../src/sync/reconcile/process.ts';
import { createReevaluation, rulesEvaluatedBy } from '../../../../src/sync/reconcile/reconcile.ts';
import type { WorkspaceContext } from '../../../../src/sync/workspace-context.ts';
import { createTravellingClock } from '../../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../../support/harness/intake.ts';
import { reconcileOver } from '../../../support/harness/reconcile-over.ts';
import type { OpenedStore } from '../../../support/harness/store.ts';
import { workspaceContext } from '../../../support/harness/workspace-context.ts';
import { ON_POSTGRES } from '../../../support/postgres/store-place.ts';
import { batchContext, RULES, SOURCES, START, saidOf, TRACKER } from '../../../support/rows/batches.ts';
import { pull, workItem } from '../../../support/rows/items.ts';

const states = async ({ query }: OpenedStore) =>
  (await query.selectFrom('inbox').select('state').orderBy('id').execute()).map(({ state }) => state);

const reevaluated = (parts: Pick<WorkspaceContext, 'store' | 'logger' | 'rules' | 'sources' | 'outbox'>) =>
  workspaceContext({ ...parts, clock: createTravellingClock() });

const RECEIVED = Date.UTC(2026, 0, 2);

/** Texts that a vendor may return and that not every database accepts. */
const HOSTILE = {
  key: 'github:github.com:r1:pr:\u00007',
  identifier: '7\u0000',
  title: 'a\u0000b\ud800c \udfff \\u0000',
  url: 'https://github.com/acme/app/pull/7\ud83d',
  branch: '\u0000',
  labels: ['\u0000', 'fine', '\udc00'],
};

test('stores, finds and recognizes an item whose texts contain U+0000 and lone surrogates', async () => {
  const store = await openTestStore();
  const item = pull({ ...HOSTILE, repoName: 'acme/app\u0000' });
  const reconcile = reconcileOver(store, { translate: () => ({ outcome: 'items', items: [item] }), start: RECEIVED });
  for (const key of ['first', 'again']) {
    const delivery = { connection: 'main', key, source: 'poll', event: 'pull', body: Buffer.from('{}') } as const;
    await appendDeliveries(store.query, [delivery], RECEIVED);
    await reconcile.drain();
  }
  const deliveries = await store.query.selectFrom('inbox').select(['state', 'reason']).orderBy('id').execute();
  expect(deliveries).toEqual([
    { state: 'applied', reason: null },
    { state: 'applied', reason: null },
  ]);
  const key = 'github:github.com:r1:pr:\ufffd7';
  expect(await itemsAtUrl(store.query, 'https://github.com/acme/app/pull/7\ufffd')).toEqual([key]);
  expect(await itemsByDisplayName(store.query, 'acme/app\ufffd#7\ufffd')).toEqual([key]);
  const { fields } = await store.query.selectFrom('items').select('fields').executeTakeFirstOrThrow();
  const title = 'a\ufffdb\ufffdc \ufffd \\u0000';
  expect(JSON.parse(fields)).toMatchObject({ item: { title, labels: ['\ufffd', 'fine', '\ufffd'] } });
});

// A delivery with many items is processed in parts, and the last part settles it.

const FIRST = Date.UTC(2026, 0, 1);
const SECOND = Date.UTC(2026, 0, 2);

/** Numbers of pull requests, and when each was changed. */
type Page = readonly (readonly [number: number, updatedAt: number])[];

const pageOf = (from: number, to: number, updatedAt: number): Page =>
  Array.from({ length: to - from + 1 }, (_, index) => [from + index, updatedAt]);

const translatePage: ReconcileConnection['translate'] = ({ body }) => ({
  outcome: 'items',
  items: (JSON.parse(body.toString()) as Page).map(([number, updatedAt]) =>
    pull({ identifier: String(number), key: `github:github.com:r1:pr:${number}`, updatedAt }),
  ),
});

async function openPages(guard?: GuardLimits) {
  const store = await openTestStore();
  const reconcile = reconcileOver(store, { translate: translatePage, start: SECOND, guard });
  return { store, drain: () => reconcile.drain() };
}

async function appendPage(store: OpenedStore, key: string, page: Page, at = SECOND): Promise<void> {
  const body = Buffer.from(JSON.stringify(page));
  const delivery = { connection: 'main', key, source: 'poll', event: 'list', body } as const;
  await appendDeliveries(store.query, [delivery], at);
}

const items = async ({ query }: OpenedStore) => (await query.selectFrom('items').select('key').execute()).length;

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

test('a delivery is superseded only if all its parts are', async () => {
  const { store, drain } = await openPages();
  await appendPage(store, 'new', pageOf(1, 90, SECOND));
  await appendPage(store, 'old', pageOf(1, 90, FIRST));
  await appendPage(store, 'first is new', [...pageOf(100, 100, FIRST), ...pageOf(1, 90, FIRST)]);
  await appendPage(store, 'last is new', [...pageOf(1, 90, FIRST), ...pageOf(101, 101, FIRST)]);
  await drain();
  expect(await states(store)).toEqual(['applied', 'superseded', 'applied', 'applied']);
});

test('a delivery with a failed part is not settled by a later part', async () => {
  const { store, drain } = await openPages();
  // The items are processed from the last number to the first.
  onTestFinished(await refuseItem(store, ':61'));
  await appendPage(store, 'page', pageOf(1, 90, FIRST));
  await appendPage(store, 'next', pageOf(91, 95, FIRST));
  await drain();
  expect(await states(store)).toEqual(['quarantined', 'applied']);
  expect(await items(store)).toBe(20 + 5);
});

test('a retried delivery does not repeat the changes of its applied parts', async () => {
  const { store, drain } = await openPages();
  await appendPage(store, 'page', pageOf(1, 90, FIRST));
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
  const { store, drain } = await openPages({ creations: 200, removals: unlimited, repairs: unlimited, statuses: 50 });
  // A first poll reads the pages from the last to the first; each lists the oldest item first.
  for (const [index, from] of [201, 101, 1].entries())
    await appendPage(store, `page ${index}`, pageOf(from, from + 99, FIRST), SECOND - 3_000 + index * 1_000);
  await drain();
  const numbersOf = async (state: 'pending' | 'held') =>
    (await changesInState(store.query, state, 300)).map(({ entity }) => Number(entity.split('/').at(-1)));
  const down = (from: number, to: number) => Array.from({ length: from - to + 1 }, (_, index) => from - index);
  expect(await numbersOf('pending')).toEqual(down(300, 101));
  expect(await numbersOf('held')).toEqual(down(100, 1));
});

describe('the evaluation by new rules', () => {
  /** By these rules bugs become tasks; by `PLAIN_RULES` they do not. */
  const PRESENT = { ...RULES, digest: 'present' };

  /** Bugs that were evaluated by other rules, and the functions that re-evaluate them by the present ones. */
  async function afterOtherRules(store: Store, bugs: number) {
    const items = Array.from({ length: bugs }, (_, at) =>
      workItem({ key: `jira:cloud-1:${10_001 + at}`, identifier: `ENG-${at}`, type: 'Bug' }),
    );
    const batch = items.map((item) => saidOf(item));
    await store.commit((query) => applyBatch(query, batch, batchContext(1_000, { rules: PLAIN_RULES })));
    const stopping = new AbortController();
    const notified: number[] = [];
    const outbox = { ...createWakeSignal(), notify: () => void notified.push(notified.length) };
    const errors: LogFields[] = [];
    const logger = { ...silentLogger, error: (fields: LogFields) => void errors.push(fields) };
    const parts = reevaluated({ store, logger, rules: PRESENT, sources: SOURCES, outbox });
    const contexts = createBatchContexts(parts);
    return {
      notified,
      errors,
      reevaluate: createReevaluation(parts, contexts).reevaluate,
      /** Stops after the first transaction. */
      reevaluateOnce: () =>
        createReevaluation({ ...parts, outbox: { ...outbox, notify: () => stopping.abort() } }, contexts).reevaluate(
          stopping.signal,
        ),
    };
  }

  const enqueued = async ({ query }: Store) =>
    (await query.selectFrom('outbox').select('entity').where('kind', '=', 'task').execute()).length;

  test('evaluates all open items by the new rules, each once, and continues after an interruption', async () => {
    const store = await openTestStore();
    const { reevaluateOnce, reevaluate, notified } = await afterOtherRules(store, 25);
    await reevaluateOnce();
    const first = await enqueued(store);
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(25);
    expect(await rulesEvaluatedBy(store.query)).not.toBe(PRESENT.digest);
    await store.query.deleteFrom('outbox').execute();
    await reevaluate(new AbortController().signal);
    expect(await enqueued(store)).toBe(25 - first);
    expect(await rulesEvaluatedBy(store.query)).toBe(PRESENT.digest);
    expect(notified.length).toBeGreaterThan(0);
    notified.length = 0;
    await reevaluate(new AbortController().signal);
    expect(notified).toEqual([]);
  });

  test('items that cannot be evaluated are skipped and logged', async () => {
    const store = await openTestStore();
    const { reevaluate, errors } = await afterOtherRules(store, 2);
    await store.query.updateTable('items').set({ fields: '{}' }).execute();
    await reevaluate(new AbortController().signal);
    expect(errors).toEqual([{ from: 'jira:cloud-1:10001', items: 2, error: expect.any(Error) }]);
    expect(await rulesEvaluatedBy(store.query)).toBe(PRESENT.digest);
    expect(await enqueued(store)).toBe(0);
  });

  test('a database that accepts no writes skips no item', async () => {
    const plain = await openTestStore();
    await afterOtherRules(plain, 1);
    const full = new DatabaseFault('full', 'a file', 'no space is left');
    const refuse = () => Promise.reject(full);
    const { reevaluate, errors } = await afterOtherRules({ ...plain, commitRelaxed: refuse }, 0);
    await expect(reevaluate(new AbortController().signal)).rejects.toBe(full);
    expect([errors, await rulesEvaluatedBy(plain.query)]).toEqual([[], undefined]);
  });

  const BEFORE: RulesInput = {
    trailers: ['Task'],
    links: [],
    users: { jira: { ben: 'u1' }, github: { ann: 'u2' } },
    grammars: [],
    addresses: ['https://app.example.com/workspace'],
    documents: true,
    triage: [{ when: { type: ['Bug'] }, create: 'bug', title: '{title}', labels: [], since: 0, sync: ['assignees'] }],
    workflow: { preset: 'standard', rules: [], several: 'all', bots: 'names', since: 0 },
    connections: new Set(['code', 'tracker']),
    digest: 'before',
  };

  const MERGED = pull({
    url: 'https://github.com/acme/app/pull/1',
    ...{ title: 'Fixes BUG-1', state: 'merged', isPublic: false, baseBranch: 'main', defaultBranch: 'main' },
    ...{ createdAt: '2026-01-05T08:00:00Z', mergedAt: '2026-01-05T08:30:00Z', closedAt: '2026-01-05T08:30:00Z' },
  });
  /** In a public repository only users move tasks. */
  const OF_ANN = pull({
    ...{ key: 'github:github.com:5001:pull:2', identifier: '2', url: 'https://github.com/acme/app/pull/2' },
    ...{ title: 'Fixes BUG-2', author: 'ann', isPublic: true, createdAt: '2026-01-05T08:00:00Z' },
  });
  const OF_BEN = workItem({ key: 'jira:cloud-1:10001', identifier: 'ENG-1', type: 'Bug', assignees: ['ben'] });
  /** A task was created for it before it had an assignee. */
  const FOLLOWED = workItem({
    ...{ key: 'jira:cloud-1:10002', identifier: 'ENG-2', type: 'Bug', assignees: ['ben'] },
    url: 'https://jira.example.com/browse/ENG-2',
  });
  const DOCUMENT = 'https://app.example.com/workspace/docs/d1';

  /** Returns the changes that the evaluation by other rules drops. @param held the changes that are held before */
  async function droppedBy(other: Partial<RulesInput>, held: readonly string[], connections = SOURCES) {
    const store = await openTestStore();
    const task = { title: '', status: 'open', source: 'api', updatedAt: '' };
    const items = [{ ...MERGED, description: DOCUMENT }, OF_ANN, OF_BEN, FOLLOWED].map((item) => saidOf(item));
    const created = { remote_id: 'BUG-3', desired: '{"title":"An issue"}', known: '{"title":"An issue"}' };
    await store.commit(async (query) => {
      for (const key of ['BUG-1', 'BUG-2']) await saveTask(query, { ...task, taskId: key, key }, START);
      await saveTask(query, { ...task, taskId: 'BUG-3', key: 'BUG-3', source: FOLLOWED.key }, START);
      const ofItem = { ...blankEntity(entity.task(FOLLOWED.key), 'task', { item_key: FOLLOWED.key }), ...created };
      await saveEntity(query, ofItem);
      const loose = JSON.stringify({ taskId: null, isMissing: false });
      const document = blankEntity(entity.document('d1'), 'document', { item_key: MERGED.key });
      await saveEntity(query, { ...document, known: loose });
      await applyBatch(query, items, batchContext(START, { rules: createRules(BEFORE) }));
    });
    const before = await changes(store);
    const names = [...before].flatMap(([name, what]) => (held.includes(what) ? [name] : []));
    await store.query
      .updateTable('outbox')
      .set({ state: 'held' })
      .where('entity', 'in', ['', ...names])
      .execute();
    const rules = createRules({ ...BEFORE, digest: 'after', ...other });
    const parts = reevaluated({ store, logger: silentLogger, rules, sources: connections, outbox: createWakeSignal() });
    const reevaluation = createReevaluation(parts, createBatchContexts(parts));
    expect(reevaluation.areChangesCurrent).toBe(false);
    await reevaluation.reevaluate(new AbortController().signal);
    expect(reevaluation.areChangesCurrent).toBe(true);
    const after = await changes(store);
    const left = [...after.values()];
    return [...before.values()].filter((what) => !left.includes(what)).sort();
  }

  /** Returns what each change writes, by its name: its kind and the task, or the kind and the assignee that it gives to a task. */
  async function changes({ query }: Store): Promise<ReadonlyMap<string, string>> {
    const rows = await query.selectFrom('outbox').select(['entity', 'kind']).where('kind', '!=', 'read').execute();
    const entities = await findEntities(
      query,
      rows.map((row) => row.entity),
    );
    return new Map(
      entities.map(({ entity: name, kind, task_id, desired }) => {
        const assignee = /"assigneeIds":\["(\w+)"/.exec(desired ?? '')?.[1];
        return [name, [kind, task_id, assignee].filter((part) => part != null).join(' ')];
      }),
    );
  }

  const MOVES = ['task_update BUG-1', 'task_update BUG-2'];
  const OF_CODE = ['document BUG-1', 'link BUG-1', 'link BUG-2', 'pull_request', 'pull_request', ...MOVES];
  const WITHOUT_MIRROR = new Map([...SOURCES].map(([name, source]) => [name, { ...source, records: false }]));
  const ONLY_TRACKER = new Map([[TRACKER.name, TRACKER]]);

  test.each<[reason: string, dropped: readonly string[], other: Partial<RulesInput>, connections?: typeof SOURCES]>([
    ['nothing', [], {}],
    ['all rules for task states', MOVES, { workflow: undefined }],
    ['the preset', MOVES, { workflow: { ...BEFORE.workflow, preset: undefined } as never }],
    ['the rule for new tasks', ['task u1', 'task_update BUG-3 u1'], { triage: [] }],
    ['the user of an assignee', ['task u1', 'task_update BUG-3 u1'], { users: { github: { ann: 'u2' } } }],
    ['the user of an author', ['task_update BUG-2'], { users: { jira: { ben: 'u1' } } }],
    ['the setting for documents', ['document BUG-1'], { documents: false }],
    ['the mirror', ['pull_request', 'pull_request'], {}, WITHOUT_MIRROR],
    ['the connection', OF_CODE, { connections: new Set(['tracker']) }, ONLY_TRACKER],
  ])('drops the pending and held changes whose reason is gone: %s was removed', async (_reason, dropped, ...after) => {
    const [other, connections] = after;
    expect(await droppedBy(other, [], connections)).toEqual(dropped);
    expect(await droppedBy(other, dropped, connections)).toEqual(dropped);
  });
});
