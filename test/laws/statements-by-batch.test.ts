import { describe, expect, it, onTestFinished } from 'vitest';
import { createQueryPlans } from '../support/cost/query-plans.ts';
import { isDeep, sampleOf } from '../support/harness/depth.ts';
import { openStore } from '../support/harness/store.ts';
import { BATCH_SHAPES, type BatchShape, makeReady, takeShape } from '../support/rows/batch-shapes.ts';

/**
 * A database across a network costs each statement a way there and back: so their number does not grow with the batch. It
 * differs by what the batch holds, and by how its rows are divided into statements of fixed sizes: by `SLACK` at the most.
 */
const SLACK = 12;

/** Of what is read or written at most so many rows are named in one statement. */
const ROWS_OF_STATEMENT = 256;

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

  it('is that of its chunks where a list is long', async () => {
    const shape = BATCH_SHAPES.find(({ name }) => name === 'a first list of tasks') as BatchShape;
    const chunks = isDeep ? 4 : 2;
    const { statements: one } = await statementsOf(shape, ROWS_OF_STATEMENT);
    const { statements: several } = await statementsOf(shape, chunks * ROWS_OF_STATEMENT);
    expect(several.length).toBeLessThanOrEqual(chunks * one.length);
    expect(one.length).toBeLessThan(50);
  });
});
