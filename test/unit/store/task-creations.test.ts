import { describe, expect, it, test } from 'vitest';
import { entity } from '../../../src/model/change.ts';
import type { WrittenStatus } from '../../../src/model/written-task.ts';
import { blankEntity, findEntity, saveEntity } from '../../../src/store/changes/entities.ts';
import { addRequest } from '../../../src/store/changes/requests.ts';
import { correctOwnMoves } from '../../../src/store/tasks/correct-own-moves.ts';
import { noteContest, readTaskUpdateFacts, saveTask } from '../../../src/store/tasks/stored-tasks.ts';
import {
  afterCreationRefused,
  type CreationTrials,
  creationBody,
  creationTrials,
  disabledFields,
  noteCreationPassed,
  noteCreationRefused,
  omittedFields,
} from '../../../src/store/tasks/task-creations.ts';
import { appendAnswer } from '../../../src/store/workspace/workspace-reads.ts';
import type { Scope } from '../../../src/store/workspace-scope.ts';
import { remainsOf } from '../../support/faults/all-or-nothing.ts';
import { openTestStore } from '../../support/harness/intake.ts';

const NOW = 1_000_000_000;

const DAY = 86_400_000;
const TEXT = { title: 'a', description: 'b', reportedAt: 'c' };
const BODY = { ...TEXT, labels: ['ui'], priority: 'p1', source: 'jira:1' };
const NONE: CreationTrials = { fields: {}, without: {} };
const TRYING: CreationTrials = { ...NONE, isTrying: true };

test.each<[what: string, trials: CreationTrials, fields: readonly string[]]>([
  ['nothing while nothing was refused', NONE, []],
  ['the fields refused in it', { ...NONE, without: { 'task:a': ['labels'], 'task:b': ['source'] } }, ['labels']],
  ['all but one field that never passed', TRYING, ['priority', 'source']],
  ['all but one of the fields that never passed', { ...TRYING, fields: { labels: { passed: true } } }, ['source']],
  ['a field that is switched off', { ...NONE, fields: { labels: { offSince: NOW - DAY + 1 } } }, ['labels']],
  ['no field a day after it was switched off', { ...NONE, fields: { labels: { offSince: NOW - DAY } } }, []],
])('a creation leaves out %s', (_what, trials, fields) => {
  expect(omittedFields(trials, 'task:a', BODY, NOW)).toEqual(fields);
});

describe('a refused creation', () => {
  const LABELLED = { ...TEXT, labels: ['x'] };
  const PASSED = { labels: { passed: true } };
  it.each<[what: string, trials: CreationTrials, body: object, without: readonly string[] | undefined, fields: object]>(
    [
      ['is sent again without all optional fields', NONE, BODY, ['labels', 'priority', 'source'], {}],
      ['without any of them has a text that is refused', NONE, TEXT, undefined, {}],
      [
        'leaves out the one field that is tried',
        TRYING,
        LABELLED,
        ['labels'],
        { labels: { refused: [expect.anything()] } },
      ],
      ['blames no field that passed before', { ...TRYING, fields: PASSED }, LABELLED, ['labels'], PASSED],
    ],
  )('%s', (_what, trials, body, without, fields) => {
    const next = afterCreationRefused(trials, 'task:a', { ...body }, NOW);
    expect([next.without['task:a'], next.fields]).toEqual([without, fields]);
  });
});

/** Creates tasks on a server that refuses these fields. @returns the optional fields of each request */
async function create(query: Scope, names: readonly string[], refuses: readonly string[], now = NOW) {
  const sent: string[][] = [];
  for (const name of names) {
    for (let attempt = 0; attempt < 5; attempt++) {
      const body = await creationBody(query, name, { ...BODY, labels: [name] }, now);
      const fields = Object.keys(body).filter((field) => !(field in TEXT));
      sent.push(fields);
      if (!fields.some((field) => refuses.includes(field))) {
        await noteCreationPassed(query, name, body);
        break;
      }
      await noteCreationRefused(query, name, body, now);
    }
  }
  return sent;
}

test('tries fields one at a time after a refusal, until each is accepted or switched off', async () => {
  const { query } = await openTestStore();
  const sent = await create(query, ['a', 'b', 'c', 'd', 'e'], ['labels']);
  expect(sent).toEqual([
    ['labels', 'priority', 'source'],
    [],
    // Labels are refused a first time, and priority is tried in their place.
    ['labels'],
    ['priority'],
    ['labels', 'priority'],
    ['priority', 'source'],
    ['labels', 'priority', 'source'],
    ['priority', 'source'],
    // Three values were refused.
    ['priority', 'source'],
  ]);
  expect(disabledFields(await creationTrials(query), NOW)).toEqual(['labels']);
  // A day later the server accepts them.
  expect(await create(query, ['f'], [], NOW + DAY)).toEqual([['labels', 'priority', 'source']]);
  expect(disabledFields(await creationTrials(query), NOW + DAY)).toEqual([]);
});

describe('moves of tasks by worksync', () => {
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

  const CONTEXT = { statuses: { completed: 'Done' }, now: at(4), random: { uuid: () => 'drawn' } };

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
    const correctOnce = () => correctOwnMoves(store, { ...CONTEXT, random: { uuid: () => `drawn-${++drawn}` } });
    await correctOnce();
    await correctOnce();
    return {
      known: JSON.parse((await findEntity(query, NAME))?.known ?? '') as WrittenStatus,
      contests: (await readTaskUpdateFacts(query)).contested ?? [],
      evaluations: drawn,
    };
  }

  const MOVES = { previous: 'open', moves: [at(1), at(2)] };

  const DONE = { status: 'Done', updatedAt: timeOf(2) };
  const EDITED = { status: 'planned', updatedAt: timeOf(3) };

  test.each<[claim: string, cached: typeof DONE, stored: WrittenStatus, expected?: WrittenStatus]>([
    [
      'a contest before the first move is removed, and the other facts stay',
      EDITED,
      { ...MOVES, status: 'review', contested: [at(-5), at(3)], epoch: at(3) },
      { ...MOVES, status: 'review', contested: [at(3)], epoch: at(3) },
    ],
    [
      'a move that was stored as an edit by a person is one of worksync again',
      DONE,
      { ...MOVES, contested: [at(-5), at(1)], epoch: at(1) },
      { ...MOVES, status: 'completed' },
    ],
    ['an edit by a person stays one', EDITED, { ...MOVES, contested: [at(3)], epoch: at(3) }],
    ['a status of another time is no move', { ...DONE, updatedAt: timeOf(3) }, MOVES],
    ['another status of the same time is no move', { ...EDITED, updatedAt: timeOf(2) }, MOVES],
    ['a status without known moves is no move', DONE, { previous: 'open' }],
    ['a known move stays', DONE, { ...MOVES, status: 'completed' }],
  ])('%s', async (_claim, cached, stored, expected = stored) => {
    const { known, contests, evaluations } = await correct(stored, cached);
    expect(known).toEqual(expected);
    expect([contests, evaluations]).toEqual([expected.contested ?? [], expected === stored ? 0 : 1]);
  });

  test('the owner of the workspace alone records that they were corrected', async () => {
    expect(await remainsOf(async (store) => () => correctOwnMoves(store, CONTEXT))).toEqual([]);
  });
});
