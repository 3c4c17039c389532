import { afterEach, describe, expect, it } from 'vitest';
import { describeExplained } from '../../src/cli/items/show-items.ts';
import { createTracker, issue, tell } from '../support/fakes/tracker.ts';
import { createWorld, GITHUB, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

let world: World;
afterEach(() => world.close());

const ask: World['ask'] = (question, asked) => world.ask(question, asked);
const edit = (setting: PullSetting, id?: string) => world.edit(setting, id);

async function open(rules: object = {}): Promise<void> {
  world = await createWorld({
    connectors: [createTracker().connector],
    config: {
      rules,
      connections: {
        github: GITHUB,
        tracker: { connector: 'tracker', webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
      },
    },
  });
}

const say = async (number: number, fields: object = {}) => {
  const item = issue(number, { updatedAt: world.clock.now(), ...fields });
  expect(await tell(world.daemon().address, item, { secret: WEBHOOK_SECRET })).toBe(202);
  await world.settled();
};
const newBug = async () => (await world.bug()).taskId;
const linksOf = (taskId: string) => world.links(taskId);
const PULL = 'https://github.com/acme/app/pull/1';

describe('explain', () => {
  it('names rule, place, text, delivery and request of a link, by item and by task', async () => {
    await open();
    const taskId = await newBug();
    await edit({ title: 'Door', body: 'It fixes BUG-1, and not BUG-9. See ENG-7.' }, 'the-delivery');
    const byItem = await ask('explain', { target: PULL });
    expect(byItem.items[0]?.links).toEqual([
      {
        task: 'BUG-1',
        name: 'BUG-1',
        taskId,
        state: 'linked',
        reason: {
          ...{ rule: 'task-key', place: 'description', text: 'BUG-1', intent: 'closes' },
          ...{ strength: 'closing', namedAt: expect.any(Number), delivery: expect.any(Number) },
        },
        delivery: expect.objectContaining({ connection: 'github', event: 'pull_request', key: 'the-delivery' }),
        request: expect.objectContaining({ action: 'add-link', id: expect.any(String) }),
        error: null,
      },
    ]);
    expect(byItem.items[0]?.others.map(({ text, outcome }) => `${text} ${outcome}`)).toEqual([
      'BUG-9 unknown',
      'ENG-7 unknown',
    ]);
    const byTask = await ask('explain', { target: 'bug-1' });
    expect(byTask.items[0]?.links).toEqual(byItem.items[0]?.links);
    for (const target of ['github:github.com:5001:pull:1', 'acme/app#1']) {
      expect((await ask('explain', { target })).items).toEqual(byItem.items);
    }
    expect(describeExplained(byItem)).toContain('because task-key: "BUG-1" in description (closing)');
  });
});

describe('the status of a task', () => {
  it('names why merged work has not finished it, counts it, and follows the rules after a release', async () => {
    await open({
      workflow: { rules: [{ when: { pullRequest: 'merged', link: 'closing' }, set: { status: 'completed' } }] },
    });
    await newBug();
    await edit({ title: 'BUG-1' });
    await edit({ title: 'BUG-1', merged: true });
    const explained = await ask('explain', { target: 'BUG-1' });
    expect(explained.statuses).toMatchObject([{ status: 'open', setBy: { who: 'creation' }, wanted: null }]);
    const lines = describeExplained(explained);
    expect(lines).toMatch(/no change: no closing word names the task.*\[not-closing\]/);
    expect(lines).toMatch(/remedy: write .?"?Fixes BUG-1/);
    expect((await ask('explain', { target: PULL })).statuses).toEqual(explained.statuses);
    const status = await world.partition().status();
    expect(status.unfinishedTasks).toEqual({ 'not-closing': 1 });
    const { tasks } = await ask('unfinished', { limit: 10 });
    expect(tasks).toMatchObject([{ name: 'BUG-1', status: 'open', reason: 'not-closing' }]);
    // The status is that of the creation.
    expect(await ask('release-status', { task: 'bug-1' })).toMatchObject({ released: false });
    await edit({ title: 'Fixes BUG-1', merged: true });
    expect(await world.metrics()).toContain('worksync_task_moves_total{workspace="test",rule="rule 1"} 1');
    await world.settled();
    await ask('status-undo', { task: 'BUG-1' });
    await world.settled();
    expect(await ask('unfinished', { limit: 10 })).toMatchObject({ tasks: [{ reason: 'older-than-epoch' }] });
  });
});

describe('links by hand', () => {
  /** As the commands send: through the daemon, which learns what the workspace answers. */
  const HASTE = { lane: 'interactive', patience: 60_000 } as const;

  async function add(taskId: string, target: string): Promise<void> {
    const { items } = await ask('link-target', { target });
    const url = items[0]?.url ?? target;
    const { body } = await world.partition().client.addWorkItem({ taskId, body: { url } }, HASTE);
    await ask('link-added', { taskId, workItem: body, item: items[0]?.key ?? null });
    await world.settled();
  }

  async function remove(taskId: string, link: string): Promise<void> {
    const { workItemId } = await ask('link-to-remove', { taskId, link });
    if (workItemId !== null) await world.people.removeWorkItem({ taskId, workItemId }, {});
    await ask('link-removed', { taskId, link });
    await world.settled();
  }

  it('removed ones stay away, and one that is added again stays whatever the text says', async () => {
    await open();
    const taskId = await newBug();
    await edit({ title: 'BUG-1' });
    await remove(taskId, PULL);
    await edit({ title: 'BUG-1, edited' });
    expect(await linksOf(taskId)).toEqual([]);
    expect((await ask('explain', { target: PULL })).items[0]?.links[0]?.state).toBe('removed');
    await add(taskId, PULL);
    expect((await ask('explain', { target: PULL })).items[0]?.links[0]?.state).toBe('manual');
    await edit({ title: 'Names nothing' });
    expect((await linksOf(taskId)).map(({ url }) => url)).toEqual([PULL]);
  });

  it('make the task of a tracker item, so that pull requests that name it follow', async () => {
    await open();
    const taskId = await newBug();
    await edit({ title: 'ENG-5' });
    await say(5);
    expect(await linksOf(taskId)).toEqual([]);
    await add(taskId, 'ENG-5');
    expect((await linksOf(taskId)).map(({ url }) => url).toSorted()).toEqual([PULL, issue(5).url]);
    await remove(taskId, 'ENG-5');
    expect(await linksOf(taskId)).toEqual([]);
  });
});
