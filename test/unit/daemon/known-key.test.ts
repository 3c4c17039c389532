import { expect, test } from 'vitest';
import { noteKey, type UsedKey } from '../../../src/daemon/known-key.ts';
import { openTestStore } from '../../support/intake.ts';

const KEY = 'wsk_of_a_test';
const WORKSPACE = { url: 'https://workspace.example/api/v1', id: 'current' };

test('a refusal holds for the same key in the same place, and for no other one', async () => {
  const store = await openTestStore();
  let resumed = 0;
  const throttle = {
    async resume() {
      resumed++;
    },
  };
  const isAnother = async (used: UsedKey) => {
    const before = resumed;
    await noteKey(store, throttle, used);
    return resumed > before;
  };
  expect(await isAnother({ key: KEY, workspace: WORKSPACE })).toBe(true);
  expect(await isAnother({ key: KEY, workspace: WORKSPACE })).toBe(false);
  expect(await isAnother({ key: 'wsk_another', workspace: WORKSPACE })).toBe(true);
  expect(await isAnother({ key: KEY, workspace: WORKSPACE })).toBe(true);
  expect(await isAnother({ key: KEY, workspace: { ...WORKSPACE, url: 'https://workspace.example/v1' } })).toBe(true);
  expect(await isAnother({ key: KEY, workspace: { ...WORKSPACE, id: 'ws_2' } })).toBe(true);
  // Nothing that could be read back is stored.
  expect(JSON.stringify(await store.query.selectFrom('meta').selectAll().execute())).not.toContain(KEY);
});
