import { expect, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import type { WrittenStatus } from '../../../src/model/written-status.ts';
import { saveTask } from '../../../src/store/cached-tasks.ts';
import { correctOwnMoves } from '../../../src/store/correct-own-moves.ts';
import { blankEntity, findEntity, saveEntity } from '../../../src/store/entities.ts';
import { addRequest } from '../../../src/store/requests.ts';
import { noteContest, readTaskUpdateFacts } from '../../../src/store/task-update-facts.ts';
import { appendAnswer } from '../../../src/store/workspace-answers.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const NAME = entity.taskUpdate('t1');
const NOW = Date.parse('2026-11-02T10:00:00Z');
const timeOf = (minute: number) => new Date(NOW + minute * 60_000).toISOString();
const at = (minute: number) => NOW + minute * 60_000;

/** worksync moved the task to `review` in minute 1 and to `completed` in minute 2. */
async function correct(stored: WrittenStatus, cached: { status: string; updatedAt: string }) {
  const { query } = await openTestStore();
  await saveTask(query, { taskId: 't1', key: 'BUG-1', title: '', source: 'api', ...cached }, NOW);
  await saveEntity(query, {
    ...blankEntity(NAME, 'task_update', { task_id: 't1' }),
    known: JSON.stringify(stored),
    revision: 2,
  });
  for (const [minute, status] of [
    [1, 'review'],
    [2, 'Done'],
  ] as const) {
    const id = `a${minute}`;
    const times = { since: 0, due: 0, asked_at: 0, slot_at: 0, sent_at: 0, completed_at: at(minute) };
    await addRequest(query, {
      ...{ entity: NAME, kind: 'task_update', item_key: null, task_id: 't1', action: 'update-task', lane: 'status' },
      ...{ ...times, status: 200, error: null, outcome: 'answered', attempt: 1, deliveries: '[]', answer: id },
    });
    const body = { taskId: 't1', status, updatedAt: timeOf(minute) };
    await appendAnswer(query, { action: 'update-task', entity: NAME, sentAt: 0, body }, id, at(minute));
  }
  for (const time of stored.contested ?? []) await noteContest(query, time, at(3));
  let drawn = 0;
  const correctOnce = () =>
    correctOwnMoves(query, { completed: 'Done' }, { now: at(4), next: () => `drawn-${++drawn}` });
  await correctOnce();
  await correctOnce();
  return {
    known: JSON.parse((await findEntity(query, NAME))?.known ?? '') as WrittenStatus,
    contests: (await readTaskUpdateFacts(query)).contested ?? [],
    evaluations: drawn,
  };
}

const MOVES = { previous: 'open', moves: [at(1), at(2)] };

test('a move that was stored as an edit by a person is one of worksync again', async () => {
  const stored = { ...MOVES, contested: [at(-5), at(1)], epoch: at(1) };
  const { known, contests, evaluations } = await correct(stored, { status: 'Done', updatedAt: timeOf(2) });
  expect(known).toEqual({ ...MOVES, status: 'completed' });
  expect([contests, evaluations]).toEqual([[], 1]);
});

test('an edit by a person stays one', async () => {
  const stored = { ...MOVES, contested: [at(3)], epoch: at(3) };
  const { known, contests, evaluations } = await correct(stored, { status: 'planned', updatedAt: timeOf(3) });
  expect(known).toEqual(stored);
  expect([contests, evaluations]).toEqual([[at(3)], 0]);
});
