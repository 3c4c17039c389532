import { expect, test } from 'vitest';
import type { Scope } from '../../../../src/store/workspace-scope.ts';
import { applyAnswer } from '../../../../src/sync/reconcile/answers/apply.ts';
import { BatchFetches } from '../../../../src/sync/reconcile/batch-fetches.ts';
import { BatchItems, saidIn } from '../../../../src/sync/reconcile/batch-items.ts';
import { EvaluationQueue } from '../../../../src/sync/reconcile/evaluation-queue.ts';
import type { Translated } from '../../../../src/sync/reconcile/translate-deliveries.ts';
import { BATCH_SHAPES, makeReady, takeShape } from '../../../support/batch-shapes.ts';
import { RULES, SOURCES, START } from '../../../support/batches.ts';
import { wrongWhereStatementsFail } from '../../../support/each-statement-fails.ts';

/** A failure is told, and nothing is left half done: so each statement is awaited, and each step that may ask one. */

type Take = (query: Scope, shape: (typeof BATCH_SHAPES)[number]) => Promise<void>;

const wrongWhereTaken = (shape: (typeof BATCH_SHAPES)[number], take: Take) =>
  wrongWhereStatementsFail(
    async ({ commit }) => {
      await commit((query) => makeReady(query, shape, 1));
      return () => commit((query) => take(query, shape));
    },
    { isRepeatable: true },
  );

test.each(BATCH_SHAPES)('whatever statement fails, nothing is left of a batch of $name', async (shape) => {
  expect(await wrongWhereTaken(shape, (query) => takeShape(query, shape, 1))).toEqual([]);
});

/** What a batch does, outside of one: each read and each write is a statement. */
async function takeAlone(query: Scope, batch: readonly Translated[], again: readonly string[]): Promise<void> {
  const moment = { now: START + 120_000, usedShare: 0 };
  const items = new BatchItems(query, moment, new BatchFetches(query, moment, SOURCES));
  const looks = new EvaluationQueue(query, { moment, rules: RULES, sources: SOURCES });
  await items.load(batch);
  for (const key of again) looks.lookAt(key);
  for (const translated of batch) {
    const { answer, source, translation } = translated;
    const told = answer && (await applyAnswer(query, answer, moment));
    for (const key of told?.again ?? []) looks.lookAt(key, told?.isSweep);
    if (source) for (const item of saidIn(translation)) await items.take(translated, source, item);
  }
  await looks.evaluate(items.changed);
}

const ALONE = BATCH_SHAPES.filter(({ name }) => !name.startsWith('comments'));

test.each(ALONE)('whatever statement fails, nothing is left of $name outside of a batch', async (shape) => {
  const take: Take = (query) => takeAlone(query, shape.batch(1), shape.again?.(1) ?? []);
  expect(await wrongWhereTaken(shape, take)).toEqual([]);
});
