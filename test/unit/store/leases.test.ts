import { expect, onTestFinished, test } from 'vitest';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import type { Installation } from '../../../src/store/installation.ts';
import {
  fenceOf,
  localTime,
  ownerOf,
  ownersOf,
  register,
  removeExpired,
  renew,
  replicasOf,
  takeLeases,
  unownedOf,
  unregister,
} from '../../../src/store/leases.ts';
import { numbersOf } from '../../../src/store/workspace-numbers.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

const NAMES = ['one', 'two', 'three', 'four'];
const NOW = 1_000;
const TTL = 3_000;
const time = localTime({ now: () => NOW });
const random = systemRandom();

/** Two processes: one owns the first two workspaces, the other one the third. */
async function twoProcesses() {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const { query } = installation;
  const workspaces = await numbersOf(query, NAMES);
  const [a, b] = [random.uuid(), random.uuid()];
  const take = (incarnation: string, some: readonly number[]) =>
    installation.commit((transaction) => takeLeases(transaction, incarnation, some));
  for (const [id, incarnation] of [
    ['a', a],
    ['b', b],
  ] as const)
    await register(query, { id, incarnation, address: `http://${id}`, about: '{}' }, time, TTL);
  await take(a, workspaces.slice(0, 2));
  await take(b, workspaces.slice(2, 3));
  return { installation, query, workspaces, a, b, take };
}

/** The ids of the owners by workspace. */
const owners = async ({ query }: Pick<Installation, 'query'>) =>
  Object.fromEntries((await ownersOf(query)).map(({ workspace, id }) => [workspace, id]));

const OWNERS = { one: 'a', two: 'a', three: 'b' };

test('a process takes only workspaces without an owner', async () => {
  const { installation, workspaces, b, take, query } = await twoProcesses();
  const taken = await take(b, workspaces);
  expect([...taken]).toEqual([[workspaces[3], { epoch: 1, isTakeover: false }]]);
  expect(await owners(installation)).toEqual({ ...OWNERS, four: 'b' });
  expect(await unownedOf(query, workspaces)).toEqual([]);
});

test('a process that ends releases its own workspaces only', async () => {
  const { installation, query, a, workspaces } = await twoProcesses();
  await unregister(query, a);
  expect(await owners(installation)).toEqual({ three: 'b' });
  expect((await replicasOf(query)).map(({ id }) => id)).toEqual(['b']);
  expect(await unownedOf(query, workspaces)).toEqual([workspaces[0], workspaces[1], workspaces[3]]);
});

test('removes expired processes unless they were renewed meanwhile', async () => {
  const { query, installation, a, workspaces, b, take } = await twoProcesses();
  const listed = await replicasOf(query);
  await renew(query, b, time, TTL);
  await removeExpired(query, []);
  expect(await replicasOf(query)).toHaveLength(2);
  await removeExpired(query, listed);
  expect((await replicasOf(query)).map(({ id }) => id)).toEqual(['b']);
  expect(await owners(installation)).toEqual({ three: 'b' });
  // Its workspaces were not released, so they are taken over, each with the next epoch.
  const taken = await take(b, workspaces.slice(0, 2));
  expect([...taken.values()]).toEqual([
    { epoch: 2, isTakeover: true },
    { epoch: 2, isTakeover: true },
  ]);
  expect(await renew(query, a, time, TTL)).toBeUndefined();
});

test('removes one of two expired processes without the other', async () => {
  const { query, a } = await twoProcesses();
  // Both expire at the same time.
  const listed = await replicasOf(query);
  await removeExpired(
    query,
    listed.filter(({ incarnation }) => incarnation === a),
  );
  expect((await replicasOf(query)).map(({ id }) => id)).toEqual(['b']);
});

test('a renewal changes the expiry of one process, even if the clock stands still', async () => {
  const { query, a } = await twoProcesses();
  expect(await renew(query, a, time, TTL)).toBe(NOW);
  expect((await replicasOf(query)).map(({ expires_at }) => expires_at)).toEqual([NOW + TTL + 1, NOW + TTL]);
});

test('an expired owner is returned only if no time is given', async () => {
  const { query } = await twoProcesses();
  const ids = await Promise.all(
    [undefined, NOW + TTL - 1, NOW + TTL].map(async (livingAt) => (await ownerOf(query, 'one', livingAt))?.id),
  );
  expect(ids).toEqual(['a', 'a', undefined]);
  expect(await ownerOf(query, 'four')).toBeUndefined();
});

test('the fence accepts only this workspace, incarnation and epoch', async () => {
  const { installation, workspaces, a, b } = await twoProcesses();
  const [one, , three] = workspaces as [number, number, number];
  const enter = (lease: Parameters<typeof fenceOf>[0]) => installation.commit(fenceOf(lease));
  await enter({ workspace: one, incarnation: a, epoch: 1 });
  for (const other of [
    { workspace: three, incarnation: a, epoch: 1 },
    { workspace: one, incarnation: b, epoch: 1 },
    { workspace: one, incarnation: a, epoch: 2 },
  ])
    await expect(enter(other)).rejects.toMatchObject({ code: 'lease_lost' });
});
