import { afterEach, describe, expect, it } from 'vitest';
import { SyncError } from '../../src/model/errors.ts';
import type { WorkItem } from '../../src/model/item.ts';
import { createTracker, issue, type Tracker, tell } from '../support/fakes/tracker.ts';
import { createWorld, GITHUB, WEBHOOK_SECRET, type World, type WorldOptions } from '../support/harness/daemon.ts';

let world: World;
let tracker: Tracker;
afterEach(() => world.close());

const CONNECTIONS = {
  github: GITHUB,
  tracker: { connector: 'tracker', webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
};
const EVERYTHING = { triage: [{ create: 'bug' }] };

async function open(rules: object, options: WorldOptions = {}): Promise<void> {
  tracker = createTracker();
  world = await createWorld({
    ...options,
    connectors: [tracker.connector],
    config: { connections: CONNECTIONS, rules, ...options.config },
  });
}

async function say(number: number, fields: Partial<WorkItem> = {}): Promise<void> {
  const updatedAt = fields.updatedAt ?? world.clock.now();
  expect(await tell(world.daemon().address, issue(number, { updatedAt, ...fields }), { secret: WEBHOOK_SECRET })).toBe(
    202,
  );
}

const tasks = () => world.tasks();
const linksOf = async (taskId: string) =>
  (await world.links(taskId)).map(({ url, externalId }) => ({ url, externalId }));

describe('triage', () => {
  it('makes a bug of a work item, with what is known of it, and links it', async () => {
    await open(
      {
        triage: [
          { when: { labels: 'wontfix' }, create: 'nothing' },
          { when: { type: ['Story', 'Epic'] }, create: 'idea', title: '{identifier}: {title}' },
          { when: { project: 'eng*' }, create: 'bug', labels: ['external'], priority: { P1: 'urgent', '*': 'low' } },
        ],
      },
      { config: { users: {}, connections: CONNECTIONS } },
    );
    const { userId } = await world.bug('Mine');
    await world.restart({ config: { users: { tracker: { Ann: userId }, email: { 'bo@x.example': userId } } } });
    await say(1, {
      description: 'It **breaks**.',
      author: 'ann',
      assignees: ['bo', 'nobody'],
      emails: { bo: 'Bo@x.example' },
      labels: ['ui'],
      priority: 'P1',
      createdAt: '2026-01-04T10:00:00+02:00',
    });
    await say(2, { type: 'Epic', title: 'A dream' });
    await say(3, { labels: ['wontfix'] });
    await say(4, { containerName: 'Other' });
    await say(5, { state: 'done' });
    await world.settled();
    const [, bug, idea, ...rest] = await tasks();
    expect(rest).toEqual([]);
    expect(bug).toMatchObject({
      kind: 'bug',
      title: 'Issue 1',
      description: `It **breaks**.\n\nSource: ${issue(1).url}`,
      source: issue(1).key,
      reporterUserId: userId,
      assigneeIds: [userId],
      labels: ['ui', 'external'],
      priority: 'urgent',
      reportedAt: '2026-01-04T08:00:00.000Z',
    });
    expect(idea).toMatchObject({ kind: 'idea', title: 'ENG-2: A dream', assigneeIds: [], source: issue(2).key });
    expect(await linksOf(bug?.taskId ?? '')).toEqual([{ url: issue(1).url, externalId: `worksync:${issue(1).key}` }]);
  });

  it('first looks whether a task that an item names was made meanwhile', async () => {
    await open(EVERYTHING);
    await world.settled();
    const byHand = await world.bug('By hand');
    await say(1, { title: `As ${byHand.key}` });
    await say(2, { title: 'As BUG-77, which nobody made' });
    await world.settled();
    expect((await tasks()).map(({ title }) => title)).toEqual(['By hand', 'As BUG-77, which nobody made']);
    expect((await linksOf(byHand.taskId)).map(({ url }) => url)).toEqual([issue(1).url]);
  });

  it('leaves what is known to have a task, and what was there before triage was switched on', async () => {
    await open({});
    await world.bug('By hand');
    await say(1, { title: 'As BUG-1' });
    await say(2, { updatedAt: world.clock.now() - 1_000 });
    await world.settled();
    await world.restart({ config: { rules: EVERYTHING } });
    await say(2, { updatedAt: world.clock.now() - 500, title: 'A late delivery of an old change' });
    await world.clock.advance(1_000);
    await say(1, { title: 'As BUG-1, again' });
    await world.settled();
    expect((await tasks()).map(({ title }) => title)).toEqual(['By hand']);
    await say(2, { title: 'Changed since' });
    await world.settled();
    expect((await tasks()).map(({ title }) => title)).toEqual(['By hand', 'Changed since']);
  });
});

describe('a creation whose answer is lost', () => {
  it.each([
    ['first', 1],
    ['third', 3],
  ])('as the %s delays no other task, and the marks take one list', async (_which, lost) => {
    let isLost = false;
    let lists = 0;
    await open(EVERYTHING, {
      http: (own) => ({
        ...own,
        async request(asked) {
          const { method, url, body } = asked;
          if (method === 'GET' && new URL(url).pathname.endsWith('/tasks')) lists++;
          const answer = await own.request(asked);
          if (isLost || method !== 'POST' || !body?.includes(`"Issue ${lost}"`)) return answer;
          isLost = true;
          throw new SyncError('outcome_unknown', 'the answer was lost');
        },
      }),
    });
    await world.settled();
    const listsBefore = lists;
    const titles = async () => new Set((await tasks()).map(({ title }) => title));
    for (let number = 1; number < lost; number++) await say(number);
    if (lost > 1) await world.until(async () => (await titles()).size === lost - 1);
    await say(lost);
    await world.until(() => isLost);
    for (const number of [1, 2, 3]) await say(lost + number);
    const from = world.clock.now();
    await world.until(async () => (await titles()).size === lost + 3);
    expect(world.clock.now() - from).toBeLessThan(10_000);
    expect(lists - listsBefore).toBe(1);
    await world.settled();
    expect((await tasks()).map(({ title }) => title).toSorted()).toHaveLength(lost + 3);
  });
});

describe('a pull request that names an item of a tracker', () => {
  const pullLinks = async (taskId: string) => (await linksOf(taskId)).filter(({ url }) => url.includes('/pull/'));

  it('is linked to the task of that item, whichever comes first', async () => {
    await open(EVERYTHING);
    await world.pull({ number: 1, head: 'mona/eng-1-door' });
    await world.settled();
    await say(1);
    await world.settled();
    await world.pull({ number: 2, body: 'Fixes https://tracker.example/issues/ENG-1' });
    await world.pull({ number: 3, title: 'ENG-1', body: 'skip ENG-1' });
    await world.settled();
    const [bug] = await tasks();
    expect((await pullLinks(bug?.taskId ?? '')).map(({ url }) => url).toSorted()).toEqual([
      'https://github.com/acme/app/pull/1',
      'https://github.com/acme/app/pull/2',
    ]);
  });
});
