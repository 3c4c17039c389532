import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { entity } from '../../src/model/change.ts';
import { CACHED_TABLES, type CachedTable } from '../../src/store/unit-of-work/cached-tables.ts';
import { beginUnitOfWork } from '../../src/store/unit-of-work/unit-of-work.ts';
import type { Scope } from '../../src/store/workspace-scope.ts';
import type { Translated } from '../../src/sync/reconcile/translate-deliveries.ts';
import { createQueryPlans } from '../support/cost/query-plans.ts';
import { drawn, sampleOf } from '../support/harness/depth.ts';
import { type OpenedStore, openStore } from '../support/harness/store.ts';
import { BATCH_SHAPES, type BatchShape, makeReady, takeShape } from '../support/rows/batch-shapes.ts';
import { answered, saidOf, takeBatch } from '../support/rows/batches.ts';
import { pull, workItem } from '../support/rows/items.ts';
import { openRecords } from '../support/rows/records-route.ts';

/**
 * A batch works with rows in memory, and reads ahead. It leaves what it would leave if each row were read and written where it is
 * used; and deliveries that have nothing to do with one another leave the same in one batch and one by one. Of others that is
 * not so, and need not be: what a state in between asked for, such as a read, may have been for nothing.
 */

/** A delivery of a round: rounds follow one another, and what they say is newer. */
interface Tell {
  /** The number of the pull request, the issue or the task that it is about. */
  readonly about: number;
  /** @param other tells another number, which it names, by one that was drawn */
  readonly in: (round: number, other: (drawn: number) => number) => Translated;
}

const HIGHEST = 4;
const number = fc.integer({ min: 1, max: HIGHEST });
const names = fc.array(fc.tuple(fc.constantFrom('BUG-', 'ENG-', 'Fixes ENG-', 'IDEA-'), number), { maxLength: 3 });

const pullKey = (each: number) => `github:github.com:5001:pull:${each}`;
const issueKey = (each: number) => `jira:cloud-1:issue:${each}`;
const urlOf = (each: number) => `https://github.com/acme/api/pull/${each}`;

const request: fc.Arbitrary<Tell> = fc
  .record({ about: number, names, state: fc.constantFrom('open', 'open', 'merged'), gone: fc.nat({ max: 3 }) })
  .map(({ about, names: named, state, gone }) => ({
    about,
    in: (round, other) => {
      const who = { key: pullKey(about), identifier: String(about), url: urlOf(about), updatedAt: round * 1_000 };
      const title = ['A change', ...named.map(([prefix, drawn]) => prefix + other(drawn))].join(' ');
      return saidOf(pull({ ...who, title, state: state as 'open' | 'merged', gone: gone === 3 }));
    },
  }));

const issue: fc.Arbitrary<Tell> = fc
  .record({
    about: number,
    called: number,
    names,
    state: fc.constantFrom('open', 'open', 'done'),
    type: fc.constantFrom('Bug', 'Story'),
  })
  .map(({ about, called, names: named, state, type }) => ({
    about,
    in: (round, other) => {
      const who = { key: issueKey(about), identifier: `ENG-${other(called)}`, updatedAt: round * 1_000 };
      const title = ['An issue', ...named.map(([prefix, drawn]) => prefix + other(drawn))].join(' ');
      return saidOf(workItem({ ...who, title, state: state as 'open' | 'done', type }));
    },
  }));

const task: fc.Arbitrary<Tell> = fc
  .record({ about: number, status: fc.constantFrom('open', 'completed'), drawn: number, isMade: fc.boolean() })
  .map(({ about, status, drawn, isMade }) => ({
    about,
    in: (round, other) => {
      const times = { createdAt: '2026-01-01T00:00:00Z', updatedAt: `2026-01-01T00:00:0${round}Z` };
      const source = isMade ? issueKey(other(drawn)) : 'api';
      return answered('saw-task', { taskId: `t${about}`, key: `BUG-${about}`, title: 'T', status, source, ...times });
    },
  }));

const answer: fc.Arbitrary<Tell> = fc
  .record({ about: number, drawn: number, what: fc.constantFrom('add-link', 'record', 'removed', 'look', 'links') })
  .map(({ about, drawn, what }) => ({
    about,
    in: (round, other) => {
      const taskId = `t${other(drawn)}`;
      const url = urlOf(about);
      const link = { taskId, workItemId: `w${about}>${taskId}`, url, externalId: `github.com/5001#${about}` };
      const seconds = round * 10 - 1;
      if (what === 'add-link')
        return answered('add-link', link, { entity: entity.link(pullKey(about), taskId), seconds });
      if (what === 'removed') return answered('saw-link-removed', link, { seconds });
      if (what === 'look') return answered('look-again', null, { entity: pullKey(about), seconds });
      if (what === 'links')
        return answered('read-links', { workItems: [link] }, { entity: entity.readLinks(taskId), seconds });
      const fields = { title: 'A change', headBranch: 'feature', baseBranch: 'main', state: 'open', url };
      const record = { provider: 'github', repoId: '5001', identifier: String(about), ...fields, taskIds: [taskId] };
      return answered('saw-record', record, { seconds });
    },
  }));

const tell = fc.oneof(request, request, issue, task, answer);

async function rowsOf({ query }: OpenedStore, isMeant: (row: object) => boolean): Promise<object> {
  const rows = Object.keys(CACHED_TABLES).map(async (table) => {
    const all = await query
      .selectFrom(table as CachedTable)
      .selectAll()
      .execute();
    return [
      table,
      all
        .filter(isMeant)
        .map((row) => JSON.stringify(row))
        .toSorted(),
    ] as const;
  });
  return Object.fromEntries(await Promise.all(rows));
}

/** Each row is read where it is used, after all that was written before has reached the database. */
function flushedEachTime(plain: Scope): Scope {
  const unit = beginUnitOfWork(plain).unitOfWork;
  if (!unit) throw new Error('no unit of work');
  const of: typeof unit.of = (table) => ({
    async where(column, values) {
      await unit.flush();
      return unit.of(table).where(column, values);
    },
    save: (row) => unit.of(table).save(row),
    remove: (key) => unit.of(table).remove(key),
  });
  return { ...plain, unitOfWork: { of, flush: () => unit.flush() } };
}

type Round = readonly Tell[];

/** Throws where the rows are not the same after each round. */
async function compare(
  rounds: fc.Arbitrary<readonly Round[]>,
  takes: readonly ((store: OpenedStore, round: Round, index: number) => Promise<void>)[],
  isMeant: (row: object) => boolean = () => true,
): Promise<void> {
  const stores = await Promise.all(takes.map(() => openStore({ file: ':memory:' })));
  const property = fc.asyncProperty(rounds, async (all) => {
    for (const [index, round] of all.entries()) {
      for (const [which, take] of takes.entries()) await take(stores[which] as OpenedStore, round, index + 1);
      const [left, ...others] = await Promise.all(stores.map((store) => rowsOf(store, isMeant)));
      for (const other of others) expect(other).toEqual(left);
    }
  });
  const empty = async () => {
    for (const { database } of stores)
      for (const table of Object.keys(CACHED_TABLES)) await database.deleteFrom(table as CachedTable).execute();
    for (const { commit } of stores) await commit(openRecords);
  };
  await fc.assert(property.beforeEach(empty), { numRuns: drawn(100) });
  for (const store of stores) await store.close();
}

describe('a batch', () => {
  it('leaves the rows that it would leave if none were kept in memory', async () => {
    const rounds = fc.array(fc.array(tell, { maxLength: 8 }), { minLength: 1, maxLength: 4 });
    const any = (drawn: number) => drawn;
    const compared = compare(rounds, [
      ({ commit }, round, index) =>
        commit((query) =>
          takeBatch(
            query,
            round.map((each) => each.in(index, any)),
            10 * index,
          ),
        ),
      ({ commit }, round, index) =>
        commit(async (query) => {
          const own = flushedEachTime(query);
          await takeBatch(
            own,
            round.map((each) => each.in(index, any)),
            10 * index,
          );
          await own.unitOfWork?.flush();
        }),
    ]);
    await expect(compared).resolves.toBeUndefined();
  });

  it('leaves the rows that its deliveries leave one by one', async () => {
    const round = fc.uniqueArray(tell, { maxLength: HIGHEST, selector: ({ about }) => about });
    // The one list of tasks is wished for by all of them.
    const isMeant = (row: object) => !('entity' in row && row.entity === entity.readTasks);
    const compared = compare(
      fc.array(round, { minLength: 1, maxLength: 6 }),
      [
        ({ commit }, tells, index) =>
          commit((query) =>
            takeBatch(
              query,
              tells.map((each) => each.in(index, () => each.about)),
              10 * index,
            ),
          ),
        async ({ commit }, tells, index) => {
          for (const each of tells)
            await commit((query) => takeBatch(query, [each.in(index, () => each.about)], 10 * index));
        },
      ],
      isMeant,
    );
    await expect(compared).resolves.toBeUndefined();
  });
});

/**
 * A database across a network costs each statement a way there and back: so their number does not grow with the batch. It
 * differs by what the batch holds, and by how its rows are divided into statements of fixed sizes: by `SLACK` at the most.
 */
const SLACK = 12;

/** The statements of the batch, and those of them that read too much. */
async function statementsOf(shape: BatchShape, count: number) {
  const statements: string[] = [];
  const plans = createQueryPlans();
  const store = await openStore({ file: ':memory:', onStatement: (statement) => statements.push(statement) });
  onTestFinished(() => store.close());
  await store.commit((query) => makeReady(query, shape, count));
  statements.length = 0;
  await store.commit((query) => takeShape(query, shape, count));
  for (const statement of statements) plans.saw(statement);
  return { statements, costly: await plans.costly() };
}

describe('the number of statements of a batch', () => {
  it.each(sampleOf(BATCH_SHAPES, 3))('of $name does not grow with it', async (shape) => {
    const { statements: few } = await statementsOf(shape, 10);
    for (const size of sampleOf([40, 50, 100], 3)) {
      const { statements: many, costly } = await statementsOf(shape, size);
      expect(many.length - few.length).toBeLessThanOrEqual(SLACK);
      expect(costly).toEqual([]);
    }
  });
});
