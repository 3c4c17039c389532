import { afterEach, describe, expect, it } from 'vitest';
import { describeExplained } from '../../src/cli/items/explained.ts';
import type { Grammar } from '../../src/model/item.ts';
import { createTracker, issue, tell } from '../support/fakes/tracker.ts';
import { createWorld, GITHUB, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

const TOKEN = 'the-token-that-reads-figures-of-the-test';

let world: World;
afterEach(() => world.close());

const ask: World['ask'] = (question, asked) => world.ask(question, asked);
const edit = (setting: PullSetting, id?: string) => world.edit(setting, id);

async function open(rules: object = {}, grammar: Partial<Grammar> = {}): Promise<void> {
  const { connector } = createTracker();
  world = await createWorld({
    tokens: [{ secret: TOKEN, role: 'read', workspaces: null }],
    connectors: [{ ...connector, grammar: { ...(connector.grammar as Grammar), ...grammar } }],
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
  it('explains the names beyond the limit at the item by the first one and their number, and at each task', async () => {
    await open();
    await newBug();
    const names = Array.from({ length: 60 }, (_, index) => `BUG-${60 - index}`);
    await edit({ title: 'A list', body: names.join(' ') });
    const { items } = await ask('explain', { target: PULL });
    expect(items[0]?.others.at(-1)).toMatchObject({ text: 'BUG-10', place: 'description', outcome: 'left-out' });
    expect(describeExplained({ task: null, statuses: [], items, isCut: false })).toContain(
      'not by "BUG-10" (description): left out, and 9 names after it: worksync reads 50 names of tasks',
    );
    expect(describeExplained(await ask('explain', { target: 'BUG-1' }))).toContain(
      'not by "BUG-1" (description): left out: worksync reads 50 names of tasks',
    );
    await edit({ title: 'A list', body: names.slice(0, 50).join(' ') });
    expect((await ask('explain', { target: 'BUG-1' })).items).toEqual([]);
  });

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
    const text = describeExplained(byItem);
    expect(text).toContain('BUG-1: linked');
    expect(text).toContain('because task-key: "BUG-1" in description (closing)');
    expect(text).toContain('the-delivery');
    expect(text).toContain('add-link');
  });

  it('keeps the delivery that brought the text, through others that do not change it', async () => {
    await open();
    await newBug();
    await edit({ title: 'BUG-1' }, 'first');
    await edit({ title: 'BUG-1', labels: ['late'] }, 'second');
    const { items } = await ask('explain', { target: PULL });
    expect(items[0]?.links[0]?.delivery?.key).toBe('first');
    await edit({ title: 'BUG-1 there', head: 'bug-1' }, 'third');
    expect((await ask('explain', { target: PULL })).items[0]?.links[0]).toMatchObject({
      reason: { place: 'branch', text: 'bug-1' },
      delivery: { key: 'third' },
    });
  });

  it('says by way of which item a pull request is linked, and what became of the item', async () => {
    await open({ triage: [{ when: { labels: 'no' }, create: 'nothing' }, { create: 'bug' }] });
    await say(1);
    await say(2, { labels: ['no'] });
    await edit({ title: 'ENG-1 and ENG-2', body: 'See https://tracker.example/board/9?issue=ENG-2, not ?issue=ENG-3' });
    const { items } = await ask('explain', { target: PULL });
    expect(items[0]?.links).toMatchObject([
      { task: 'BUG-1', state: 'linked', reason: { rule: 'item-key', text: 'ENG-1', via: issue(1).key } },
    ]);
    expect(items[0]?.others).toMatchObject([
      { text: 'ENG-2', outcome: 'taskless', via: issue(2).key },
      { text: 'https://tracker.example/board/9?issue=ENG-2', outcome: 'taskless', via: issue(2).key },
      { text: 'ENG-3', outcome: 'unknown' },
    ]);
    const first = (await ask('explain', { target: 'ENG-1' })).items[0];
    expect(first?.triage).toMatch(/^became BUG-1 on 2/);
    expect(first?.links).toMatchObject([{ state: 'linked', reason: { rule: 'triage', place: 'source' } }]);
    for (const target of [issue(2).url ?? '', 'https://tracker.example/board/9?issue=eng-2']) {
      const second = (await ask('explain', { target })).items[0];
      expect(second?.triage).toBe('rule 1 says that no task is created');
    }
  });

  it('links by an address without a word, where the vendor wants one before other names', async () => {
    await open({ triage: [{ create: 'bug' }] }, { needsWord: true });
    for (const number of [1, 2]) await say(number);
    await edit({ title: 'A change', body: `ENG-2, and ${issue(1).url}` });
    const { items } = await ask('explain', { target: PULL });
    expect(items[0]?.links).toMatchObject([{ task: 'BUG-1', reason: { rule: 'item-url', via: issue(1).key } }]);
    expect(items[0]?.others).toMatchObject([{ text: 'ENG-2', outcome: 'unworded' }]);
  });

  it('shows that an issue left the scope, and leaves its task alone until it comes back', async () => {
    await open({ triage: [{ create: 'bug' }], workflow: { preset: 'standard' } });
    await say(1);
    const taskId = (await ask('explain', { target: 'ENG-1' })).items[0]?.links[0]?.taskId ?? '';
    const elsewhere = { containerId: '9', containerName: 'Operations', identifier: 'OPS-4', movedAway: 'Operations' };
    await world.clock.advance(60_000);
    await say(1, { ...elsewhere, state: 'done' });
    await say(2, elsewhere);
    const away = await ask('explain', { target: 'ENG-1' });
    expect(away.items).toMatchObject([{ movedTo: 'Operations', links: [{ taskId, state: 'linked' }] }]);
    expect(away.statuses[0]?.items).toMatchObject([{ counts: false, reason: { code: 'moved', detail: 'Operations' } }]);
    expect(describeExplained(away)).toContain('(moved to Operations: its task is not changed)');
    expect((await world.task(taskId)).status).toBe('open');
    expect((await ask('explain', { target: issue(2).key })).items).toEqual([]);
    await edit({ title: 'Fixes ENG-1' });
    expect((await ask('explain', { target: PULL })).items[0]?.links).toMatchObject([{ taskId, state: 'linked' }]);
    await world.clock.advance(60_000);
    await say(1, { state: 'in_progress' });
    await world.until(async () => (await world.task(taskId)).status !== 'open');
    expect((await ask('explain', { target: 'ENG-1' })).items[0]?.movedTo).toBe(null);
  });

  it('knows nothing of what is not there', async () => {
    await open();
    expect(await ask('explain', { target: 'BUG-77' })).toEqual({ task: null, statuses: [], items: [], isCut: false });
    expect(await ask('explain', { target: '%' })).toEqual({ task: null, statuses: [], items: [], isCut: false });
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
    expect(lines).toMatch(/BUG-1 {2}open {2}\(set at its creation; read 2/);
    expect(lines).toMatch(/no change: no closing word names the task.*\[not-closing\]/);
    expect(lines).toMatch(/remedy: write .?"?Fixes BUG-1/);
    expect(lines).toMatch(/github acme\/app#1 {2}merged .*carrying \(title\) {2}does not count: no closing word/);
    expect((await ask('explain', { target: PULL })).statuses).toEqual(explained.statuses);
    expect((await ask('items', { name: 'BUG-1' })).statuses).toEqual(explained.statuses);
    const status = await world.partition().status();
    expect(status.unfinishedTasks).toEqual({ 'not-closing': 1 });
    const { tasks } = await ask('unfinished', { limit: 10 });
    expect(tasks).toMatchObject([{ name: 'BUG-1', status: 'open', reason: 'not-closing' }]);
    // The status is that of the creation.
    expect(await ask('release-status', { task: 'bug-1' })).toMatchObject({ released: false });
    await edit({ title: 'Fixes BUG-1', merged: true });
    const figures = await fetch(`${world.daemon().adminAddress}/metrics`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    const text = await figures.text();
    expect(text).toContain('worksync_task_moves_total{workspace="test",rule="rule 1"} 1');
    await world.settled();
    await ask('status-undo', { task: 'BUG-1' });
    await world.settled();
    expect(await ask('unfinished', { limit: 10 })).toMatchObject({ tasks: [{ reason: 'older-than-epoch' }] });
    const { entries } = await ask('audit', { since: null, before: null, limit: 10 });
    expect(entries).toMatchObject([
      { action: 'status-undo' },
      { action: 'release-status', subject: 'bug-1', count: 0 },
    ]);
  });

  it('follows the other items at once, after the link of an item that is unverified since a restore is removed', async () => {
    await open({ workflow: { preset: 'standard' } });
    const taskId = await newBug();
    await edit({ title: 'BUG-1' });
    await edit({ title: 'BUG-1', number: 2, draft: true });
    const { query } = world.partition().store;
    await query.updateTable('items').set({ unverified: 1 }).where('key', 'like', '%:1').execute();
    const [link] = (await linksOf(taskId)).filter(({ url }) => url === PULL);
    await world.people.removeWorkItem({ taskId, workItemId: link?.workItemId ?? '' }, {});
    await ask('link-removed', { taskId, link: link?.workItemId ?? '' });
    await world.until(async () => (await world.people.getTask({ taskId }, {})).body.status === 'in_progress');
    expect((await ask('explain', { target: 'BUG-1' })).statuses).toMatchObject([
      { setBy: { rule: 'standard: draft' } },
    ]);
  });
});

describe('other rules than before', () => {
  it('apply to open items, and not to finished ones', async () => {
    await open();
    const taskId = await newBug();
    await edit({ number: 1, title: 'ticket one' });
    await edit({ number: 2, title: 'ticket one', merged: true });
    expect(await linksOf(taskId)).toEqual([]);
    const rules = { links: [{ pattern: 'ticket one', task: 'BUG-1' }] };
    await edit({ number: 3, title: 'BUG-1' });
    await world.restart({ config: { rules } });
    await world.until(async () => (await linksOf(taskId)).length === 2);
    expect((await linksOf(taskId)).map(({ url }) => url.slice(-1)).toSorted()).toEqual(['1', '3']);
    await world.restart({ config: { rules: {} } });
    await world.until(async () => (await linksOf(taskId)).length === 1);
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

  it('are not said to wait if their item is gone before they were sent', async () => {
    await open();
    const taskId = await newBug();
    await edit({ title: 'BUG-1' });
    const before = await linksOf(taskId);
    const plugIn = await world.unplugService();
    const told = async (fields: object, state: string) => {
      const item = issue(3, { updatedAt: world.clock.now(), ...fields });
      expect(await tell(world.daemon().address, item, { secret: WEBHOOK_SECRET })).toBe(202);
      await world.until(async () => (await ask('explain', { target: item.key })).items[0]?.links[0]?.state === state);
    };
    await told({ title: 'Like BUG-1' }, 'waiting');
    await told({ title: 'Like BUG-1', gone: true }, 'withdrawn');
    expect(describeExplained(await ask('explain', { target: issue(3).key })).split('\n')).toContain(
      '    the item is gone at its vendor',
    );
    await plugIn();
    await world.settled();
    expect(await linksOf(taskId)).toEqual(before);
  });

  it('can be removed before they were added', async () => {
    await open();
    const taskId = await newBug();
    await edit({ number: 2, title: 'BUG-1' });
    const before = await linksOf(taskId);
    const plugIn = await world.unplugService();
    expect(await world.deliver('pull_request', pullEvent({ title: 'BUG-1', updated: '2026-01-05T08:00:00Z' }))).toBe(
      202,
    );
    await world.until(async () => (await ask('explain', { target: PULL })).items[0]?.links[0]?.state === 'waiting');
    expect(await ask('link-to-remove', { taskId, link: PULL })).toMatchObject({ workItemId: null, isOnlyWanted: true });
    expect(await ask('link-removed', { taskId, link: PULL })).toEqual({ marked: true });
    await plugIn();
    await world.settled();
    expect(await linksOf(taskId)).toEqual(before);
    expect((await ask('explain', { target: PULL })).items[0]?.links[0]?.state).toBe('removed');
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
