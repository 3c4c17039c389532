import { describe, expect, it } from 'vitest';
import { changeOperations } from '../../../src/admin/changes/waiting-changes.ts';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { findChange, type OutboxRow } from '../../../src/store/changes/outbox-rows.ts';
import type { Store } from '../../../src/store/workspace-scope.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { remainsOf } from '../../support/faults/all-or-nothing.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { waits } from '../../support/rows/changes.ts';

const OPERATIONS = { retry: changeOperations['changes-retry'], drop: changeOperations['changes-drop'] };
const [A, B] = ['pull_request:a', 'pull_request:b'];

/** Two failed changes, of which the second one has this row, and an operation on both. */
async function changes(store: Store, operation: keyof typeof OPERATIONS, row: Partial<OutboxRow> = {}) {
  const failed = { attempts: 3, not_before: 9_000, error: 'refused: no' };
  await waits(store.query, A, { kind: 'pull_request', ...failed });
  await waits(store.query, B, { kind: 'pull_request', ...failed, ...row });
  const wakes: string[] = [];
  const workspace = { store, wakeOutbox: () => wakes.push(operation) } as unknown as OpenWorkspace;
  return {
    wakes,
    run: () => OPERATIONS[operation].run(workspace, { targets: [A, B] }, createTravellingClock(), 'command ann'),
  };
}

describe.each(['retry', 'drop'] as const)('%s', (operation) => {
  it('changes all named changes or none', async () => {
    expect(await remainsOf(async (store) => (await changes(store, operation)).run)).toEqual([]);
  });
});

it.each<[keyof typeof OPERATIONS, Partial<OutboxRow>, string | null]>([
  ['retry', { state: 'pending' }, null],
  ['retry', { state: 'held' }, null],
  ['retry', { state: 'unknown', sent: '{}' }, null],
  ['retry', { state: 'unknown', sent: '{}', kind: 'task' }, 'nobody knows whether it was created'],
  ['retry', { state: 'held', kind: 'task' }, null],
  ['retry', { state: 'sending', sent: '{}' }, 'its request is under way'],
  ['drop', { state: 'pending' }, null],
  ['drop', { state: 'held' }, null],
  ['drop', { state: 'pending', kind: 'read' }, 'worksync needs what it reads there'],
  ['drop', { state: 'pending', sent: '{}' }, 'its request was sent'],
  ['drop', { state: 'unknown' }, 'its request was sent'],
  ['drop', { state: 'sending' }, 'its request was sent'],
])('%s of %j is refused for the reason %j', async (operation, row, reason) => {
  const store = await openTestStore();
  const { run, wakes } = await changes(store, operation, row);
  const before = [await findChange(store.query, A), await findChange(store.query, B)];
  if (reason === null) await run();
  else await expect(run()).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining(reason) });
  const after = [await findChange(store.query, A), await findChange(store.query, B)];
  const isRetried = operation === 'retry' && reason === null;
  expect(wakes).toEqual(isRetried ? ['retry'] : []);
  if (reason !== null) expect(after).toEqual(before);
  else if (operation === 'drop') expect(after).toEqual([undefined, undefined]);
  else
    for (const each of after)
      expect(each).toMatchObject({ attempts: 0, not_before: 0, error: null, state: expect.not.stringMatching('held') });
});
