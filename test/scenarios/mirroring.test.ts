import { afterEach, describe, expect, it } from 'vitest';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

let world: World;
const open = async (options?: WorldOptions) => {
  world = await createWorld(options);
};
afterEach(() => world.close());

async function records() {
  return (await world.people.listPullRequests({ query: {} }, {})).body.pullRequests;
}

async function linksOf(taskId: string) {
  return (await world.links(taskId));
}

async function bug(title: string) {
  return (await world.bug(title));
}

describe('mirroring and linking', () => {
  it('records a pull request once and links it to the task that its branch names', async () => {
    await open();
    const task = await bug('It breaks');
    expect(await world.deliver('pull_request', pullEvent({ head: 'bug-1-fix', title: 'Fix it' }))).toBe(202);
    await world.settled();
    expect(await records()).toMatchObject([
      { provider: 'github', repoId: '5001', identifier: '1', title: 'Fix it', state: 'open', taskIds: [task.taskId] },
    ]);
    expect(await linksOf(task.taskId)).toMatchObject([
      { url: 'https://github.com/acme/app/pull/1', externalId: 'worksync:github:github.com:5001:pull:1' },
    ]);
    // Two complete reads at the first start, one record, one link.
    expect((await world.requests()).received).toBe(4);
  });

  it('goes on, and ends in order, though a listener fails when a write was sent', async () => {
    await open();
    world.partition().onWrite(() => {
      throw new Error('a fault of ours');
    });
    for (const number of [1, 2]) await world.deliver('pull_request', pullEvent({ number }));
    await world.until(async () => (await records()).length === 2);
    await world.restart();
    await world.settled();
    expect(await records()).toHaveLength(2);
  });

  it('sends nothing after a restart when nothing has changed', async () => {
    await open();
    await bug('It breaks');
    await world.deliver('pull_request', pullEvent({ head: 'bug-1-fix' }), { id: 'same' });
    await world.settled();
    const before = (await world.requests()).received;
    await world.restart();
    await world.deliver('pull_request', pullEvent({ head: 'bug-1-fix' }), { id: 'same' });
    await world.deliver('pull_request', pullEvent({ head: 'bug-1-fix' }), {
      id: 'other id, same content'.replaceAll(/\W/g, '-'),
    });
    await world.settled();
    expect((await world.requests()).received).toBe(before);
  });
});
