import { describe, expect, it } from 'vitest';
import { forgetTasks, saveTask, taskIdPrefixes, tasksByKeys } from '../../../src/store/cached-tasks.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { allTaskKeys } from '../../support/rows/task-keys.ts';

describe('cached tasks', () => {
  const task = (number: number, key = `BUG-${number}`) => ({
    taskId: `t${number}`,
    key,
    title: 'A door',
    status: 'open',
    source: 'api',
    updatedAt: '2026-01-05T08:00:00Z',
  });

  it('are found by their keys, in the state that was saved last', async () => {
    const { query } = await openTestStore();
    await saveTask(query, task(1), 10);
    await saveTask(query, task(2), 10);
    await saveTask(query, task(2, 'BUG-7'), 20);
    expect(await tasksByKeys(query, ['BUG-1', 'BUG-2', 'BUG-7'])).toEqual(
      new Map([
        ['BUG-1', task(1)],
        ['BUG-7', task(2, 'BUG-7')],
      ]),
    );
    expect((await allTaskKeys(query)).get('t2')).toBe('BUG-7');
  });

  it('are deleted unless they were read later', async () => {
    const { query } = await openTestStore();
    await saveTask(query, task(1), 10);
    await saveTask(query, task(2), 30);
    expect(await forgetTasks(query, ['t1', 't2', 't3'], 20)).toEqual(['BUG-1']);
    expect([...(await allTaskKeys(query)).keys()]).toEqual(['t2']);
  });

  it.each<[ids: string[], prefixes: string[]]>([
    [[], ['tsk_']],
    [['tsk_1', 'tsk_9_x', 'tsk_B'], ['tsk_']],
    [
      ['0f1e', 'bug_1', 'ini_1', 'ini_2', 'x_1', 'zz9_4'],
      ['bug_', 'ini_', 'zz9_'],
    ],
    [Array.from({ length: 20 }, (_, at) => `0f${at}`), []],
  ])('with the ids %j have the id prefixes %j', async (ids, prefixes) => {
    const { query } = await openTestStore();
    for (const taskId of ids) await saveTask(query, { ...task(1), taskId, key: taskId }, 10);
    expect(await taskIdPrefixes(query)).toEqual(prefixes);
  });

  it('are empty for no key and for an unknown key', async () => {
    const { query } = await openTestStore();
    expect(await tasksByKeys(query, [])).toEqual(new Map());
    expect(await tasksByKeys(query, ['UTF-8'])).toEqual(new Map());
    expect(await allTaskKeys(query)).toEqual(new Map());
  });
});
