import { expect, test } from 'vitest';
import { BATCH_SHAPES, makeReady, takeShape } from '../../support/batch-shapes.ts';
import { wrongWhereStatementsFail } from '../../support/each-statement-fails.ts';

test.each(BATCH_SHAPES)('whatever statement fails, nothing is left of a batch of $name', async (shape) => {
  const wrong = await wrongWhereStatementsFail(
    async ({ commit }) => {
      await commit((query) => makeReady(query, shape, 1));
      return () => commit((query) => takeShape(query, shape, 1));
    },
    { isRepeatable: true },
  );
  expect(wrong).toEqual([]);
});
