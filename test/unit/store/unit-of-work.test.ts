import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blankEntity, findEntity, forgetEntity, saveEntity } from '../../../src/store/changes/entities.ts';
import { readMeta, writeMeta } from '../../../src/store/meta.ts';
import {
  beginUnitOfWork,
  flushRows,
  prefetch,
  removeRows,
  rowsWhere,
  runSequentially,
  saveRows,
} from '../../../src/store/unit-of-work/unit-of-work.ts';
import {
  CHUNK_SIZE,
  changeInChunks,
  changeKeysInChunks,
  type Scope,
  type Store,
} from '../../../src/store/workspace-scope.ts';
import { turnsBetweenCommits } from '../../support/cost/turns-of-others.ts';
import { drawn } from '../../support/harness/depth.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const few = fc.constantFrom('a', 'b', 'c');
const row = fc.record({ item_key: few, name: few, reason: few });
type Mention = { readonly item_key: string; readonly name: string; readonly reason: string };
type Step =
  | { readonly do: 'save' | 'remove'; readonly rows: readonly Mention[] }
  | { readonly do: 'read'; readonly column: 'item_key' | 'name'; readonly values: readonly string[] }
  | { readonly do: 'flush' };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('save' as const), rows: fc.array(row, { maxLength: 9 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), rows: fc.array(row, { maxLength: 3 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('read' as const),
      column: fc.constantFrom('item_key' as const, 'name' as const),
      values: fc.array(few, { maxLength: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('flush' as const) }) },
);

async function perform(query: Scope, step: Step): Promise<readonly string[]> {
  switch (step.do) {
    case 'save':
      await saveRows(query, 'mentions', step.rows);
      return [];
    case 'remove':
      await removeRows(query, 'mentions', step.rows);
      return [];
    case 'read':
      return sorted(await rowsWhere(query, 'mentions', step.column, step.values));
    case 'flush':
      await flushRows(query);
      return [];
  }
}

function sorted(rows: readonly Mention[]): string[] {
  return rows.map(({ item_key, name, reason }) => `${item_key} ${name} ${reason}`).toSorted();
}

async function allMentions(query: Scope): Promise<readonly string[]> {
  return sorted(await query.selectFrom('mentions').select(['item_key', 'name', 'reason']).execute());
}

describe('a unit of work', () => {
  it('reads and leaves the same rows as plain statements', async () => {
    const { commit } = await openTestStore();
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), fc.array(row, { maxLength: 9 }), async (steps, before) => {
        const run = (inUnit: boolean) =>
          commit(async (plain) => {
            await plain.deleteFrom('mentions').execute();
            await saveRows(plain, 'mentions', before);
            const own = inUnit ? beginUnitOfWork(plain) : plain;
            const results = await runSequentially(
              own,
              steps.map((each) => (within: Scope) => perform(within, each)),
            );
            await flushRows(own);
            return { results, rows: await allMentions(plain) };
          });
        expect(await run(true)).toEqual(await run(false));
      }),
      { numRuns: drawn(200) },
    );
  });

  it('discards the writes and the failures of a prefetch', async () => {
    const { commit } = await openTestStore();
    await commit(async (plain) => {
      const own = beginUnitOfWork(plain);
      const read: unknown[] = [];
      await prefetch(own, [
        async (ahead) => {
          await writeMeta(ahead, 'a', 'ahead');
          read.push(await readMeta(ahead, 'a'));
        },
        async (ahead) => void (await ahead.deleteFrom('meta').execute()),
        async (ahead) => void (await ahead.whole.deleteFrom('meta').execute()),
        flushRows,
      ]);
      expect([...read, await readMeta(own, 'a')]).toEqual(['ahead', undefined]);
    });
  });

  it('throws if a plain statement reads a table with unflushed rows', async () => {
    const { commit } = await openTestStore();
    await commit(async (plain) => {
      const own = beginUnitOfWork(plain);
      await writeMeta(own, 'a', '1');
      expect(() => own.selectFrom('meta')).toThrow('rows of meta');
      expect(() => own.whole).toThrow('rows of meta');
      expect(own.selectFrom('items')).toBeDefined();
      await flushRows(own);
      expect(await own.selectFrom('meta').select('value').where('name', '=', 'a').execute()).toEqual([{ value: '1' }]);
    });
  });

  it('flushes only rows that differ from the database', async () => {
    const statements: string[] = [];
    const { query, commit } = await openTestStore({ onStatement: (statement) => statements.push(statement) });
    await saveEntity(query, blankEntity('link:a>t', 'link'));
    await commit(async (plain) => {
      const own = beginUnitOfWork(plain);
      const present = await findEntity(own, 'link:a>t');
      statements.length = 0;
      await saveEntity(own, { ...blankEntity('link:a>t', 'link'), ...present });
      expect(await findEntity(own, 'link:b>t')).toBeUndefined();
      await saveEntity(own, blankEntity('link:b>t', 'link'));
      await forgetEntity(own, 'link:b>t');
      await flushRows(own);
      expect(statements).toHaveLength(1);
    });
  });
});

it.each(['entities', 'outbox'] as const)('throws if a join reads unflushed rows of %s', async (table) => {
  const { query, commit } = await openTestStore();
  await commit(async (transaction) => {
    const rows = beginUnitOfWork(transaction);
    const join = () => rows.selectJoined(['entities', 'entity'], ['outbox', 'entity']).select('outbox.state').execute();
    if (table === 'entities') await saveEntity(rows, blankEntity('link:a', 'link'));
    else await removeRows(rows, 'outbox', [{ entity: 'link:a' }]);
    expect(join).toThrow('that have not reached the database');
    await flushRows(rows);
    expect(await join()).toEqual([]);
  });
  expect(await query.selectFrom('outbox').select('entity').execute()).toEqual([]);
});

/** A change that finds these numbers of rows, one after the other. */
function finding(...numbers: number[]): () => Promise<number> {
  return async () => numbers.shift() as number;
}

describe('changeInChunks', () => {
  it.each<[what: string, change: (store: Store) => Promise<number>]>([
    ['rows that it finds', (store) => changeInChunks(store, finding(CHUNK_SIZE, CHUNK_SIZE, 0))],
    [
      'keys',
      (store) =>
        changeKeysInChunks(
          store,
          Array.from({ length: 3 * CHUNK_SIZE }, (_, at) => at),
          async () => 1,
        ),
    ],
  ])('yields at least ten turns between two chunks of %s', async (_what, change) => {
    const turns = await turnsBetweenCommits(async (store) => () => change(store));
    expect(turns).toHaveLength(2);
    expect(Math.min(...turns)).toBeGreaterThanOrEqual(10);
  });
});
