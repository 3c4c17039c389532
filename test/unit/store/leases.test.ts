import { expect, onTestFinished, test } from 'vitest';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import type { Installation } from '../../../src/store/installation.ts';
import {
  fenceOf,
  localTime,
  ownerOf,
  ownersOf,
  type Replica,
  register,
  releaseLeases,
  removeExpired,
  renew,
  renewAndList,
  replicasOf,
  takeLeases,
  unownedOf,
  unregister,
  updateReplica,
} from '../../../src/store/leases.ts';
import { numbersOf } from '../../../src/store/workspace-numbers.ts';
import type { Sql } from '../../../src/store/workspace-scope.ts';
import { wrongWhereStatementsFail } from '../../support/each-statement-fails.ts';
import { openTestInstallation } from '../../support/store.ts';
import { withoutTable } from '../../support/without-table.ts';

const NAMES = ['one', 'two', 'three', 'four'];
const NOW = 1_000;
const TTL = 3_000;
const time = localTime({ now: () => NOW });
const random = systemRandom();

/** Two processes: one that holds the first two workspaces, and one that holds the third. */
async function held() {
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

/** Who owns what, by name. */
const owners = async ({ query }: Pick<Installation, 'query'>) =>
  Object.fromEntries((await ownersOf(query)).map(({ workspace, id }) => [workspace, id]));

const HELD = { one: 'a', two: 'a', three: 'b' };

test('a process takes only what nobody owns', async () => {
  const { installation, workspaces, b, take, query } = await held();
  const taken = await take(b, workspaces);
  expect([...taken]).toEqual([[workspaces[3], { epoch: 1, isTakeover: false }]]);
  expect(await owners(installation)).toEqual({ ...HELD, four: 'b' });
  expect(await unownedOf(query, workspaces)).toEqual([]);
});

test('what is given back is of those workspaces alone that the process still owns', async () => {
  const { installation, query, workspaces, a } = await held();
  await releaseLeases(query, a, [workspaces[1] as number, workspaces[2] as number]);
  expect(await owners(installation)).toEqual({ one: 'a', three: 'b' });
});

test('a process that ends gives back what is its own, and is gone alone', async () => {
  const { installation, query, a, workspaces } = await held();
  await unregister(query, a);
  expect(await owners(installation)).toEqual({ three: 'b' });
  expect((await replicasOf(query)).map(({ id }) => id)).toEqual(['b']);
  expect(await unownedOf(query, workspaces)).toEqual([workspaces[0], workspaces[1], workspaces[3]]);
});

test('of processes that seem to have lapsed those go that were not renewed, and no others', async () => {
  const { query, installation, a, workspaces, b, take } = await held();
  const seen = await replicasOf(query);
  await renew(query, b, time, TTL);
  await removeExpired(query, []);
  expect(await replicasOf(query)).toHaveLength(2);
  await removeExpired(query, seen);
  expect((await replicasOf(query)).map(({ id }) => id)).toEqual(['b']);
  expect(await owners(installation)).toEqual({ three: 'b' });
  // Its workspaces are taken over from it, each with the next epoch; whoever gave his back left nothing to take over.
  const taken = await take(b, workspaces.slice(0, 2));
  expect([...taken.values()]).toEqual([
    { epoch: 2, isTakeover: true },
    { epoch: 2, isTakeover: true },
  ]);
  expect(await renew(query, a, time, TTL)).toBeUndefined();
});

test('of two that lapsed one is removed without the other', async () => {
  const { query, a } = await held();
  // Of the very same time.
  const seen = await replicasOf(query);
  await removeExpired(
    query,
    seen.filter(({ incarnation }) => incarnation === a),
  );
  expect((await replicasOf(query)).map(({ id }) => id)).toEqual(['b']);
});

test('a renewal is of one process, and is another value each time, also where the clock stands still', async () => {
  const { query, a } = await held();
  expect(await renew(query, a, time, TTL)).toBe(NOW);
  expect((await replicasOf(query)).map(({ expires_at }) => expires_at)).toEqual([NOW + TTL + 1, NOW + TTL]);
});

test('what a process tells of itself changes nothing of the others', async () => {
  const { query, a } = await held();
  await updateReplica(query, { incarnation: a, address: 'http://elsewhere', about: '{"version":"2"}' });
  expect((await replicasOf(query)).map(({ address, about }) => [address, about])).toEqual([
    ['http://elsewhere', '{"version":"2"}'],
    ['http://b', '{}'],
  ]);
});

test('an owner that has expired counts for nobody who asks by a time, and else until somebody removes it', async () => {
  const { query } = await held();
  const ids = await Promise.all(
    [undefined, NOW + TTL - 1, NOW + TTL].map(async (livingAt) => (await ownerOf(query, 'one', livingAt))?.id),
  );
  expect(ids).toEqual(['a', 'a', undefined]);
  expect(await ownerOf(query, 'four')).toBeUndefined();
});

test('the fence lets in the lease of this workspace, incarnation and epoch, and no other', async () => {
  const { installation, workspaces, a, b } = await held();
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

test('whatever cannot be written of a lease fails, and is not passed over', async () => {
  const { query, a } = await held();
  const [seen] = await replicasOf(query);
  if (!seen) throw new Error('nobody is there');
  await withoutTable(query, 'replicas', async () => {
    const works = [
      () => removeExpired(query, [seen]),
      () => updateReplica(query, seen),
      () => unregister(query, a),
      () => register(query, seen, time, TTL),
    ];
    for (const work of works) await expect(work()).rejects.toThrow();
  });
  await withoutTable(query, 'leases', () => expect(releaseLeases(query, a, [1])).rejects.toThrow());
});

test.each<[what: string, work: (query: Sql, own: Replica, workspaces: readonly number[]) => Promise<unknown>]>([
  ['a registration', (query, own) => register(query, { ...own, incarnation: random.uuid() }, time, TTL)],
  ['a renewal', (query, own) => renewAndList(query, own.incarnation, time, TTL)],
  ['what a process tells', (query, own) => updateReplica(query, { ...own, about: '{"new":1}' })],
  ['one that lapsed', (query, own) => removeExpired(query, [{ ...own, expires_at: NOW + TTL }])],
  ['leases that are taken', (query, own, workspaces) => takeLeases(query, own.incarnation, workspaces)],
  ['leases that are given back', (query, own, workspaces) => releaseLeases(query, own.incarnation, workspaces)],
  ['the end of a process', (query, own) => unregister(query, own.incarnation)],
])('whichever statement fails of %s, whoever waits for it is told, and nothing is changed', async (_what, work) => {
  const wrong = await wrongWhereStatementsFail(async (store) => {
    const { whole, workspace } = store.query;
    const own = { id: 'a', incarnation: random.uuid(), address: 'http://a', about: '{}' };
    await register(whole, own, time, TTL);
    const [other] = await numbersOf(whole, ['other']);
    await store.commit((query) => takeLeases(query.whole, own.incarnation, [workspace]));
    return () => store.commit((query) => work(query.whole, own, [workspace, other as number]));
  });
  expect(wrong).toEqual([]);
});
