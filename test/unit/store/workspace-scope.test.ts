import { describe, expect, it } from 'vitest';
import { blankEntity, saveEntity } from '../../../src/store/entities.ts';
import { itemsNamed, saveItemNames } from '../../../src/store/item-names.ts';
import { saveItem } from '../../../src/store/items.ts';
import { addDifference, updateChange } from '../../../src/store/outbox-rows.ts';
import { type Scope, scopeOf } from '../../../src/store/workspace-scope.ts';
import { addFindings, beginSweep, readSweeps } from '../../../src/store/workspace-sweeps.ts';
import { readPlan } from '../../../src/sync/outbox/planned-writes.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { itemRow } from '../../support/rows/items.ts';

/** Two workspaces of one database that follow the same repository, so that their rows have the same names. */
async function twoWorkspaces(): Promise<readonly [Scope, Scope]> {
  const { query, database } = await openTestStore();
  return [query, scopeOf(database, query.workspace + 1)];
}

const ENTITY = 'pull_request:github:github.com:1:pull:1';

async function addChange(scope: Scope, title: string): Promise<void> {
  await saveEntity(scope, blankEntity(ENTITY, 'pull_request', { desired: JSON.stringify({ title }) }));
  const times = { since: 1, due: 2, weight: 1 };
  await addDifference(scope, { entity: ENTITY, kind: 'pull_request', lane: 'mirror', ...times, waiting: [] });
}

describe('a scope', () => {
  it('reads the writes of a plan of its workspace only', async () => {
    const [own, other] = await twoWorkspaces();
    await addChange(own, 'ours');
    await addChange(other, 'theirs');
    expect((await readPlan(own)).map(({ body }) => body)).toEqual([{ title: 'ours' }]);
    expect((await readPlan(other)).map(({ body }) => body)).toEqual([{ title: 'theirs' }]);
  });

  it('counts the repairs of a sweep of its workspace only', async () => {
    const [own, other] = await twoWorkspaces();
    await beginSweep(own, 1);
    await addFindings(own, [{ what: 'record-changed', entity: ENTITY }], 1);
    await addChange(other, 'theirs');
    await updateChange(other, ENTITY, { state: 'held' });
    expect((await readSweeps(own)).running?.repairs).toEqual({ done: 1, waiting: 0, held: 0 });
  });

  it('finds items by name in its workspace only [A15]', async () => {
    const [own, other] = await twoWorkspaces();
    const key = 'jira:cloud:1';
    await saveItem(own, itemRow(key, { connection: 'ours' }), 1);
    await saveItem(other, itemRow(key, { connection: 'theirs' }), 1);
    await saveItemNames(own, key, {
      names: ['BUG-1'].map((name) => ({ name, place: null, container: null })),
      former: [],
      now: 1,
    });
    expect((await itemsNamed(own, ['BUG-1'])).map(({ connection }) => connection)).toEqual(['ours']);
    expect(await itemsNamed(other, ['BUG-1'])).toEqual([]);
  });
});
