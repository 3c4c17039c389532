import { expect, test } from 'vitest';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { applyAnswer } from '../../../../src/sync/reconcile/answers/apply-answer.ts';
import { BatchItems, FetchRequests, itemsIn } from '../../../../src/sync/reconcile/apply-items.ts';
import { EvaluationQueue } from '../../../../src/sync/reconcile/evaluate.ts';
import type { Translated } from '../../../../src/sync/reconcile/translate-deliveries.ts';
import { wrongWhereStatementsFail } from '../../../support/faults/each-statement-fails.ts';
import { BATCH_SHAPES, makeReady, takeShape } from '../../../support/rows/batch-shapes.ts';
import { batchContext, START } from '../../../support/rows/batches.ts';

type Take = (query: Scope, shape: (typeof BATCH_SHAPES)[number]) => Promise<void>;

const wrongWhereTaken = (shape: (typeof BATCH_SHAPES)[number], take: Take) =>
  wrongWhereStatementsFail(
    async ({ commit }) => {
      await commit((query) => makeReady(query, shape, 1));
      return () => commit((query) => take(query, shape));
    },
    { isRepeatable: true },
  );

test.each(BATCH_SHAPES)(
  'a failing statement leaves nothing of a batch of $name, because each one is awaited',
  async (shape) => {
    expect(await wrongWhereTaken(shape, (query) => takeShape(query, shape, 1))).toEqual([]);
  },
);

/** The steps of a batch without a unit of work, so that each read and each write is a statement. */
async function applyDirectly(query: Scope, batch: readonly Translated[], further: readonly string[]): Promise<void> {
  const context = batchContext(START + 120_000);
  const items = new BatchItems(query, context, new FetchRequests(query, context));
  const evaluations = new EvaluationQueue(query, context);
  await items.load(batch);
  for (const key of further) evaluations.add(key);
  for (const translated of batch) {
    const { answer, connection: source, translation } = translated;
    const applied = answer && (await applyAnswer(query, answer, context));
    for (const key of applied?.reevaluate ?? [])
      evaluations.add(key, { isSweep: applied?.isSweep, wantedAt: answer?.sentAt });
    if (source) for (const item of itemsIn(translation)) await items.apply(translated, source, item);
  }
  await evaluations.evaluate(items.changed);
}

const DIRECT = BATCH_SHAPES.filter(({ name }) => !name.startsWith('comments'));

test.each(DIRECT)('a failing statement leaves nothing of $name without a unit of work', async (shape) => {
  const take: Take = (query) => applyDirectly(query, shape.batch(1), shape.again?.(1) ?? []);
  expect(await wrongWhereTaken(shape, take)).toEqual([]);
});
