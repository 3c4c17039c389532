import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { loseDatabase } from '../support/faults/lose-database.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

let world: World;
let taskId: string;
let key: string;
/** The pull request of the present test. */
let number = 0;
let url: string;

async function begin(): Promise<void> {
  const bug = await world.bug();
  taskId = bug.taskId;
  key = bug.key as string;
  url = `https://github.com/acme/app/pull/${++number}`;
}

/** An edit of the pull request at the provider. `KEY` stands for the key of the task. */
const edit = (title: string, setting: PullSetting = {}) =>
  world.edit({ number, title: title.replace('KEY', key), ...setting });

const links = async () =>
  (await world.links(taskId)).map(({ url, externalId }) => ({ url, byHand: externalId === null }));
const automatic = () => [{ url, byHand: false }];
const byHand = () => [{ url, byHand: true }];

async function removeByHand(): Promise<void> {
  for (const { workItemId } of await world.links(taskId)) await world.people.removeWorkItem({ taskId, workItemId }, {});
}

const addByHand = () => world.people.addWorkItem({ taskId, body: { url } }, {});

describe('beside what people do', () => {
  beforeAll(async () => {
    world = await createWorld();
  });
  beforeEach(begin);
  afterEach(() => world.weather.clear());
  afterAll(() => world.close());

  describe('an automatic link', () => {
    it('vanishes when the text stops naming the task, and comes back when it names it anew', async () => {
      await edit('KEY: fix');
      expect(await links()).toEqual(automatic());
      await edit('fix');
      expect(await links()).toEqual([]);
      await edit('fix of KEY');
      expect(await links()).toEqual(automatic());
    });

    it('that a person removed stays removed while the text goes on naming the task', async () => {
      await edit('KEY: fix');
      await removeByHand();
      await edit('KEY: fix it');
      await edit('KEY: fix it', { labels: ['late'] });
      const head = `${key.toLowerCase()}-fix`;
      await edit('Fix it, see KEY', { head });
      await world.restart();
      await edit('Fix it all, see KEY', { head });
      await edit('Fix it all, see KEY', { head, merged: true });
      expect(await links()).toEqual([]);
    });

    it('that a person removed is added again when the text stopped naming the task and names it anew', async () => {
      await edit('KEY: fix');
      await removeByHand();
      await edit('KEY: fix it');
      expect(await links()).toEqual([]);
      await edit('fix it');
      expect(await links()).toEqual([]);
      await edit('KEY: fix it again');
      expect(await links()).toEqual(automatic());
    });

    it('that a person removed and put back is the person’s own from then on', async () => {
      await edit('KEY: fix');
      await removeByHand();
      await edit('KEY: fix it');
      await addByHand();
      await edit('KEY: fix it well');
      await edit('fix it well');
      expect(await links()).toEqual(byHand());
    });

    it('is still ours when the repository was renamed, and is removed when its key vanishes', async () => {
      await edit('KEY: fix');
      const renamed = async (title: string) => {
        const event = pullEvent({ number, title, updated: new Date(world.clock.now()).toISOString() });
        event.pull_request.html_url = url.replace('/app/', '/new-name/');
        await world.deliver('pull_request', event);
        await world.settled();
      };
      for (const title of [`${key}: fix it`, `${key}: fix it well`]) await renamed(title);
      expect(await links()).toEqual(automatic());
      await renamed('fix it well');
      expect(await links()).toEqual([]);
    });
  });

  describe('a link that a person made', () => {
    it('before the text named the task is never removed when the key vanishes', async () => {
      await addByHand();
      await edit('KEY: fix');
      expect(await links()).toEqual(byHand());
      await edit('fix');
      await edit('fix', { merged: true });
      expect(await links()).toEqual(byHand());
    });
  });
});

describe('a lost database', () => {
  beforeEach(async () => {
    world = await createWorld();
    await begin();
  });
  afterEach(() => world.close());

  it('doubles nothing, writes nothing that is there, and keeps what people made', async () => {
    const other = (await world.bug('Another')).taskId;
    await edit('KEY: fix', { labels: ['b', 'a'], body: '' });
    const updated = new Date(world.clock.now()).toISOString();
    await edit('KEY: fix', { labels: ['b', 'a'], body: '', draft: true, updated });
    await world.people.addWorkItem({ taskId: other, body: { url } }, {});
    const before = await world.records();
    await world.restart({ meanwhile: loseDatabase });
    await world.settled();

    const same = { labels: ['a', 'b'], draft: true };
    expect(await world.costOf(() => edit('KEY: fix', { ...same, body: null, updated }))).toBe(0);
    expect(await world.records()).toEqual(before);
    expect(await links()).toEqual(automatic());

    // The task is asked who made the links before one is removed.
    await edit('fix', same);
    expect(await links()).toEqual([]);
    expect(await world.links(other)).toHaveLength(1);

    // The record was written before the link was removed, so the tasks that its answer named are outdated; a push in
    // between changes no record. Named anew, the task is linked anew.
    await edit('fix', same);
    await edit('fix of KEY', same);
    expect(await links()).toEqual(automatic());
  });

  it('of a pull request whose manual link it names anew keeps that link', async () => {
    await addByHand();
    await edit('KEY: fix');
    await world.restart({ meanwhile: loseDatabase });
    await edit('KEY: fix it');
    await edit('fix it');
    expect(await links()).toEqual(byHand());
  });
});

describe('a document that a pull request names', () => {
  let documentId: string;
  let page: string;
  const attachedTo = async () => (await world.people.getDocument({ documentId }, {})).body.taskId;

  beforeAll(async () => {
    world = await createWorld({ config: { rules: { documents: 'attach' } } });
  });
  beforeEach(async () => {
    await begin();
    documentId = (await world.people.createDocument({ body: { title: 'Plan' } }, {})).body.documentId;
    page = `${new URL((await world.partition().status()).address).origin}/documents/${documentId}`;
  });
  afterAll(() => world.close());

  it('is attached to its task, once, and stays so', async () => {
    await edit('KEY', { body: `See ${page}.` });
    expect(await attachedTo()).toBe(taskId);
    expect(await world.costOf(() => edit('KEY', { body: `See ${page}.`, labels: ['x'] }))).toBe(1);
    await edit('KEY');
    expect(await attachedTo()).toBe(taskId);
  });

  it('is left alone where nothing says so', async () => {
    await world.restart({ config: { rules: {} } });
    await edit('KEY', { body: page });
    expect(await attachedTo()).toBe(null);
  });
});
