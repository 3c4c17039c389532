import { expect, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import type { WrittenStatus } from '../../../src/model/written-status.ts';
import { saveTask } from '../../../src/store/cached-tasks.ts';
import { correctOwnMoves } from '../../../src/store/correct-own-moves.ts';
import { blankEntity, findEntity, saveEntity } from '../../../src/store/entities.ts';
import { addRequest } from '../../../src/store/requests.ts';
import { noteContest, readTaskUpdateFacts } from '../../../src/store/task-update-facts.ts';
import { appendAnswer } from '../../../src/store/workspace-answers.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const NAME = entity.taskUpdate('t1');
const NOW = Date.parse('2026-11-02T10:00:00Z');
const timeOf = (minute: number) => new Date(NOW + minute * 60_000).toISOString();
const at = (minute: number) => NOW + minute * 60_000;

/** Stores the answer to an update of a task by worksync. */
async function answer(
  query: Scope,
  taskId: string,
  { id, minute, status }: { readonly id: string; readonly minute: number; readonly status: string },
) {
  const name = entity.taskUpdate(taskId);
  const times = { since: 0, due: 0, asked_at: 0, slot_at: 0, sent_at: 0, completed_at: at(minute) };
  await addRequest(query, {
    ...{ entity: name, kind: 'task_update', item_key: null, task_id: taskId, action: 'update-task', lane: 'status' },
    ...{ ...times, status: 200, error: null, outcome: 'answered', attempt: 1, deliveries: '[]', answer: id },
  });
  const body = { taskId, status, updatedAt: timeOf(minute) };
  await appendAnswer(query, { action: 'update-task', entity: name, sentAt: 0, body }, id, at(minute));
}

/** worksync moved the task to `review` in minute 1 and to `completed` in minute 2. */
async function correct(stored: WrittenStatus, cached: { status: string; updatedAt: string }) {
  const store = await openTestStore();
  const { query } = store;
  await saveTask(query, { taskId: 't1', key: 'BUG-1', title: '', source: 'api', ...cached }, NOW);
  await saveEntity(query, {
    ...blankEntity(NAME, 'task_update', { task_id: 't1' }),
    known: JSON.stringify(stored),
    revision: 2,
  });
  await answer(query, 't1', { id: 'a1', minute: 1, status: 'review' });
  await answer(query, 't1', { id: 'a2', minute: 2, status: 'Done' });
  for (const time of stored.contested ?? []) await noteContest(query, time, at(3));
  let drawn = 0;
  const random = { uuid: () => `drawn-${++drawn}` };
  const correctOnce = () => correctOwnMoves(store, { words: { completed: 'Done' }, now: at(4), random });
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

test('corrects many tasks in several transactions', async () => {
  const store = await openTestStore();
  const count = 1_100;
  await store.commit(async (query) => {
    for (let index = 0; index < count; index++) {
      const name = entity.taskUpdate(`t${index}`);
      const known = JSON.stringify({ ...MOVES, epoch: at(1) });
      await saveEntity(query, { ...blankEntity(name, 'task_update', { task_id: `t${index}` }), known });
      await answer(query, `t${index}`, { id: `a${index}`, minute: 1, status: 'review' });
    }
  });
  const sizes: number[] = [];
  const corrected = async () => {
    const rows = await store.query.selectFrom('entities').select('known').execute();
    return rows.filter(({ known }) => !known?.includes('epoch')).length;
  };
  const commit: typeof store.commit = async (work) => {
    const before = await corrected();
    const result = await store.commit(work);
    sizes.push((await corrected()) - before);
    return result;
  };
  let drawn = 0;
  const random = { uuid: () => `drawn-${++drawn}` };
  await correctOwnMoves({ ...store, commit }, { words: {}, now: at(4), random });
  expect([Math.max(...sizes), await corrected(), drawn]).toEqual([500, count, count]);
});
