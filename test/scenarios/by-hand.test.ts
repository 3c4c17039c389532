import { afterEach, describe, expect, it } from 'vitest';
import { loseDatabase } from '../support/faults/lose-database.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { editPull } from '../support/harness/edit-pull.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

const URL_OF_ONE = 'https://github.com/acme/app/pull/1';

let world: World;
let taskId: string;
afterEach(() => world.close());

/** An edit of pull request 1 at the provider. */
const edit = (setting: PullSetting) => editPull(world, setting);

async function open(options?: WorldOptions): Promise<void> {
  world = await createWorld(options);
  taskId = (await world.people.createBug({ body: { title: 'It breaks' } }, {})).body.taskId;
}

async function links() {
  const { workItems } = (await world.people.listWorkItems({ taskId }, {})).body;
  return workItems.map(({ url, externalId }) => ({ url, byHand: externalId === null }));
}

async function removeByHand(): Promise<void> {
  const { workItems } = (await world.people.listWorkItems({ taskId }, {})).body;
  for (const { workItemId } of workItems) await world.people.removeWorkItem({ taskId, workItemId }, {});
}

const addByHand = () => world.people.addWorkItem({ taskId, body: { url: URL_OF_ONE } }, {});

const AUTOMATIC = [{ url: URL_OF_ONE, byHand: false }];
const BY_HAND = [{ url: URL_OF_ONE, byHand: true }];

describe('an automatic link', () => {
  it('vanishes when the text stops naming the task, and comes back when it names it anew', async () => {
    await open();
    await edit({ title: 'BUG-1: fix' });
    expect(await links()).toEqual(AUTOMATIC);
    await edit({ title: 'fix' });
    expect(await links()).toEqual([]);
    await edit({ title: 'fix of BUG-1' });
    expect(await links()).toEqual(AUTOMATIC);
  });

  it('that a person removed stays removed while the text goes on naming the task', async () => {
    await open();
    await edit({ title: 'BUG-1: fix' });
    await removeByHand();
    await edit({ title: 'BUG-1: fix it' });
    await edit({ title: 'BUG-1: fix it', labels: ['late'] });
    await edit({ title: 'Fix it, see BUG-1', head: 'bug-1-fix' });
    await world.restart();
    await edit({ title: 'Fix it all, see BUG-1', head: 'bug-1-fix' });
    await edit({ title: 'Fix it all, see BUG-1', head: 'bug-1-fix', merged: true });
    expect(await links()).toEqual([]);
  });

  it('that a person removed is added again when the text stopped naming the task and names it anew', async () => {
    await open();
    await edit({ title: 'BUG-1: fix' });
    await removeByHand();
    await edit({ title: 'BUG-1: fix it' });
    expect(await links()).toEqual([]);
    await edit({ title: 'fix it' });
    expect(await links()).toEqual([]);
    await edit({ title: 'BUG-1: fix it again' });
    expect(await links()).toEqual(AUTOMATIC);
  });

  it('that a person removed and put back is the person’s own from then on', async () => {
    await open();
    await edit({ title: 'BUG-1: fix' });
    await removeByHand();
    await edit({ title: 'BUG-1: fix it' });
    await addByHand();
    await edit({ title: 'BUG-1: fix it well' });
    await edit({ title: 'fix it well' });
    expect(await links()).toEqual(BY_HAND);
  });

  it('is still ours when the repository was renamed, and is removed when its key vanishes', async () => {
    await open();
    await edit({ title: 'BUG-1: fix' });
    const renamed = (title: string) => {
      const event = pullEvent({ title, updated: new Date(world.clock.now()).toISOString() });
      event.pull_request.html_url = 'https://github.com/acme/new-name/pull/1';
      return event;
    };
    for (const title of ['BUG-1: fix it', 'BUG-1: fix it well']) {
      await world.deliver('pull_request', renamed(title));
      await world.settled();
    }
    expect(await links()).toEqual(AUTOMATIC);
    await world.deliver('pull_request', renamed('fix it well'));
    await world.settled();
    expect(await links()).toEqual([]);
  });
});

describe('a link that a person made', () => {
  it('before the text named the task is never removed when the key vanishes', async () => {
    await open();
    await addByHand();
    await edit({ title: 'BUG-1: fix' });
    expect(await links()).toEqual(BY_HAND);
    await edit({ title: 'fix' });
    await edit({ title: 'fix', merged: true });
    expect(await links()).toEqual(BY_HAND);
  });

  it('for a pull request that names no task is left alone', async () => {
    await open();
    await edit({ title: 'fix' });
    await addByHand();
    await edit({ title: 'fix it' });
    await edit({ title: 'fix it', state: 'closed' });
    expect(await links()).toEqual(BY_HAND);
  });

  it('while ours was on its way is taken for the person’s', async () => {
    const meanwhile: { work?: () => Promise<unknown> } = {};
    await open({
      faults: {
        async before({ method, url }) {
          if (method === 'POST' && url.endsWith('/work-items')) await takeOnce(meanwhile)?.();
          return undefined;
        },
      },
    });
    await edit({ title: 'Before' });
    meanwhile.work = addByHand;
    await edit({ title: 'BUG-1: fix' });
    await edit({ title: 'fix' });
    expect(await links()).toEqual(BY_HAND);
  });
});

function takeOnce(meanwhile: { work?: () => Promise<unknown> }): (() => Promise<unknown>) | undefined {
  const { work } = meanwhile;
  delete meanwhile.work;
  return work;
}

describe('a lost database', () => {
  it('doubles nothing, writes nothing that is there, and keeps what people made', async () => {
    await open();
    const other = (await world.people.createBug({ body: { title: 'Another' } }, {})).body.taskId;
    await edit({ title: 'BUG-1: fix', labels: ['b', 'a'], body: '' });
    const updated = new Date(world.clock.now()).toISOString();
    await edit({ title: 'BUG-1: fix', labels: ['b', 'a'], body: '', draft: true, updated });
    await world.people.addWorkItem({ taskId: other, body: { url: URL_OF_ONE } }, {});
    const before = (await world.people.listPullRequests({ query: {} }, {})).body;
    await world.restart({ meanwhile: loseDatabase });
    await world.settled();
    const asked = (await world.requests()).received;

    await edit({ title: 'BUG-1: fix', labels: ['a', 'b'], body: null, draft: true, updated });
    expect((await world.requests()).received).toBe(asked);
    expect((await world.people.listPullRequests({ query: {} }, {})).body).toEqual(before);
    expect(await links()).toEqual(AUTOMATIC);

    // Who made the links is asked of the task before one is removed.
    await edit({ title: 'fix', labels: ['a', 'b'], draft: true });
    expect(await links()).toEqual([]);
    expect((await world.people.listWorkItems({ taskId: other }, {})).body.workItems).toHaveLength(1);

    // The record was written before the link was removed, so the tasks that its answer named are outdated; a push in
    // between changes no record. Named anew, the task is linked anew.
    await edit({ title: 'fix', labels: ['a', 'b'], draft: true });
    await edit({ title: 'fix of BUG-1', labels: ['a', 'b'], draft: true });
    expect(await links()).toEqual(AUTOMATIC);
  });

  it('of a pull request whose manual link it names anew keeps that link', async () => {
    await open();
    await addByHand();
    await edit({ title: 'BUG-1: fix' });
    await world.restart({ meanwhile: loseDatabase });
    await edit({ title: 'BUG-1: fix it' });
    await edit({ title: 'fix it' });
    expect(await links()).toEqual(BY_HAND);
  });
});

describe('what the workspace holds already when the daemon first starts', () => {
  it('is not written again where it is equal', async () => {
    await open();
    const { pull_request: pull } = pullEvent({ title: ' BUG-1: fix ', labels: ['b', 'a'], merged: true });
    await world.people.createPullRequest(
      {
        body: {
          provider: 'github',
          repoId: '5001',
          identifier: '1',
          title: 'BUG-1: fix',
          headBranch: 'feature',
          baseBranch: 'main',
          description: null,
          state: 'merged',
          url: pull.html_url,
          author: 'mona',
          labels: ['b', 'a'],
          createdAt: '2026-01-05T11:00:01+02:00',
          mergedAt: '2026-01-05T09:00:00.000Z',
        },
      },
      {},
    );
    await addByHand();
    await world.restart({ meanwhile: loseDatabase });
    await world.settled();
    const asked = (await world.requests()).received;
    await world.deliver('pull_request', pullEvent({ title: ' BUG-1: fix ', labels: ['a', 'b'], merged: true }));
    await world.settled();
    expect((await world.requests()).received).toBe(asked);
    expect(await links()).toEqual(BY_HAND);
  });
});
