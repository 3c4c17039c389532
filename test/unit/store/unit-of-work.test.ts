import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { blankEntity, saveEntity } from '../../../src/store/changes/entities.ts';
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
import type { Scope } from '../../../src/store/workspace-scope.ts';
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
