import { afterEach, expect, it } from 'vitest';
import { entity } from '../../src/model/change.ts';
import type { Fault, Faults } from '../../src/reference-service/http/faults.ts';
import { updateChange } from '../../src/store/outbox-rows.ts';
import { enqueueReads } from '../../src/store/workspace-reads.ts';
import { createWorld, GITHUB, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

/** Changes by the names that people use: what waits, tried again, dropped. */

let world: World;
afterEach(() => world.close());

const ask: World['ask'] = (question, asked) => world.ask(question, asked);

async function deliver(number: number, title: string, setting: PullSetting = {}): Promise<void> {
  const updated = new Date(world.clock.now()).toISOString();
  expect(await world.deliver('pull_request', pullEvent({ number, title, updated, ...setting }))).toBe(202);
  await world.partition().reconcile.drain();
}

async function recorded(): Promise<string[]> {
  const { pullRequests } = (await world.people.listPullRequests({}, {})).body;
  return pullRequests.map(({ title }) => title).sort();
}

async function open(guard: object = {}, faults?: Faults, quota: WorldOptions['quota'] = {}): Promise<void> {
  const connections = {
    github: GITHUB,
  };
  world = await createWorld({ config: { connections, guard }, quota, ...(faults && { faults }) });
  await world.settled();
}

it('lists what waits, with the name of the item, and shows what is to stand there', async () => {
  await open();
  await deliver(7, 'Pay by card');
  const [change] = await ask('changes', { states: ['pending'], limit: 10 });
  expect(change).toMatchObject({
    entity: 'pull_request:github/5001/7',
    name: 'acme/app#7 Pay by card',
    ...{ kind: 'pull_request', effect: 'creation', state: 'pending', attempts: 0, error: null },
  });
  for (const target of ['pull_request:github/5001/7', 'acme/app#7', 'https://github.com/acme/app/pull/7'])
    expect(await ask('changes-show', { targets: [target] })).toMatchObject([
      { entity: 'pull_request:github/5001/7', desired: { title: 'Pay by card' }, known: null },
    ]);
});

it('estimates when each change is sent, at the present share of the quota', async () => {
  await open({}, undefined, { requests: 30, burst: 5 });
  for (let number = 1; number <= 20; number++) await deliver(number, `Number ${number}`);
  await world.partition().reconcile.drain();
  const waiting = await ask('changes', { states: ['pending'], limit: 50 });
  const times = waiting.map(({ expectedAt }) => expectedAt as number);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  await world.settled();
  // The last one is sent about when it was expected, some debounces later at most.
  expect(Math.abs(world.clock.now() - times.at(-1)!)).toBeLessThan(20_000);
});

it('names a link by its item and its task', async () => {
  await open();
  await world.bug();
  await deliver(7, 'BUG-1: fix');
  await world.until(async () => (await ask('changes', { limit: 99 })).some(({ kind }) => kind === 'link'));
  const links = (await ask('changes', { limit: 99 })).filter(({ kind }) => kind === 'link');
  expect(links.map(({ name }) => name)).toEqual(['acme/app#7 BUG-1: fix → BUG-1']);
});

it('estimates a link that waits for the read of its task by that read', async () => {
  await open();
  await world.bug();
  await deliver(7, 'BUG-1: fix');
  const findLink = async () => (await ask('changes', { limit: 99 })).find(({ kind }) => kind === 'link');
  await world.until(async () => (await findLink()) !== undefined);
  const link = (await findLink())!;
  const taskId = link.entity.split('>').at(-1)!;
  const now = world.clock.now();
  await world.partition().store.commit(async (query) => {
    await updateChange(query, link.entity, { not_before: now + 900_000 });
    await enqueueReads(query, [entity.readLinks(taskId)], now);
    await updateChange(query, entity.readLinks(taskId), { due: now, not_before: now + 100_000 });
  });
  expect((await findLink())?.expectedAt).toBe(now + 100_000);
});

it('tries a held change again, whatever the limits say', async () => {
  await open({ creations: 1 });
  for (const number of [1, 2, 3]) await deliver(number, `Number ${number}`, { isOfStranger: true });
  await world.settled();
  const held = await ask('changes', { states: ['held'], limit: 10 });
  expect(held).toHaveLength(2);
  const [first] = held;
  expect(await ask('changes-retry', { targets: [first!.entity] })).toEqual({ retried: [first!.entity] });
  await world.settled();
  expect(await recorded()).toHaveLength(2);
  expect(await ask('changes', { states: ['held'], limit: 10 })).toHaveLength(1);
});

const RECORD = 'pull_request:github/5001/7';

/** Answers to the first requests that record a pull request; then the service answers itself. */
function failing(...answers: Fault[]): Faults {
  return {
    before: async ({ method, url }) =>
      method === 'POST' && url.endsWith('/pull-request-records') ? answers.shift() : undefined,
  };
}

it.each<[string, Fault]>([
  ['failed', { status: 500 }],
  ['got no answer', 'cut'],
])('tries a change that %s again at once, without the pause after its failures', async (_, fault) => {
  await open({}, failing(fault, fault, fault));
  await deliver(7, 'Pay by card');
  await world.until(async () => (await ask('changes', { limit: 9 })).some(({ attempts }) => attempts === 3));
  const [failed] = await ask('changes', { limit: 9 });
  expect(failed).toMatchObject({ entity: RECORD, error: expect.any(String) });
  expect(failed!.notBefore).toBeGreaterThan(world.clock.now());
  expect(await ask('changes-retry', { targets: ['acme/app#7'] })).toEqual({ retried: [RECORD] });
  const asked = world.clock.elapsed();
  await world.settled();
  expect(world.clock.elapsed() - asked).toBeLessThan(failed!.notBefore - world.clock.now());
  expect(await recorded()).toEqual(['Pay by card']);
});

it('tries one again that the workspace refused for good', async () => {
  await open({}, failing({ status: 422, body: '{"errorCode":"unprocessable","message":"no"}' }));
  await deliver(7, 'Pay by card');
  await world.settled();
  expect(await ask('changes', { limit: 9 })).toMatchObject([{ entity: RECORD, state: 'held' }]);
  await ask('changes-retry', { targets: [RECORD] });
  await world.settled();
  expect(await recorded()).toEqual(['Pay by card']);
});

it('does within ten seconds what can be undone until then', async () => {
  await open({ creations: 1 });
  for (const number of [1, 2, 3]) await deliver(number, `Number ${number}`, { isOfStranger: true });
  await world.settled();
  const [one, other] = (await ask('changes', { states: ['held'], limit: 10 })).map(({ entity }) => entity);
  const wish = { question: 'changes-drop', asked: { targets: [one!, other!] } } as const;
  const first = await ask('postpone', wish);
  expect(first).toMatchObject({ ...wish, count: 2, remaining: 10_000 });
  expect(await ask('undo', { id: first.id })).toEqual({ undone: true });
  await world.clock.advance(11_000);
  expect(await ask('changes', { states: ['held'], limit: 10 })).toHaveLength(2);

  await ask('postpone', { question: 'changes-drop', asked: { targets: [one!] } });
  await ask('postpone', { question: 'changes-retry', asked: { targets: [other!] } });
  await world.clock.advance(11_000);
  await world.settled();
  expect(await ask('changes', { limit: 10 })).toEqual([]);
  expect(await recorded()).toHaveLength(2);
  const refused = ask('postpone', { question: 'changes-drop', asked: { targets: [one!] } });
  await expect(refused).rejects.toMatchObject({ code: 'not_found' });
  expect(await ask('postponed', {})).toEqual({ actions: [] });
  expect(await ask('audit', { since: null, before: null, limit: 10 })).toMatchObject({
    entries: [
      { action: 'changes-retry', outcome: 'done', count: 1 },
      { action: 'changes-drop', outcome: 'done', count: 1 },
      { action: 'changes-drop', outcome: 'undone', count: 2 },
    ],
  });
});

it('drops a change, until the item changes again', async () => {
  await open();
  await deliver(7, 'Pay by card');
  expect(await ask('changes-drop', { targets: ['acme/app#7'] })).toEqual({ dropped: ['pull_request:github/5001/7'] });
  await world.settled();
  expect(await recorded()).toEqual([]);
  await world.clock.advance(60_000);
  await deliver(7, 'Pay by card or cash');
  await world.settled();
  expect(await recorded()).toEqual(['Pay by card or cash']);
});

it('refuses what names no change, and suggests the one that was meant; then it does nothing', async () => {
  await open();
  await deliver(7, 'Pay by card');
  const targets = ['acme/app#7', 'pull_request:github/5001/8'];
  await expect(ask('changes-drop', { targets })).rejects.toMatchObject({
    code: 'not_found',
    message: 'no change waits for pull_request:github/5001/8 (did you mean "pull_request:github/5001/7"?)',
  });
  await expect(ask('changes-retry', { targets: ['read:tasks'] })).rejects.toMatchObject({ code: 'not_found' });
  await world.settled();
  expect(await recorded()).toEqual(['Pay by card']);
});
