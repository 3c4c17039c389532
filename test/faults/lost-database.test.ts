import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { backUp } from '../../src/admin/installation/data.ts';
import { INSTALLATION_FILE } from '../../src/store/installation/installation.ts';
import { createWeather, type Weather } from '../support/fakes/weather.ts';
import { loseDatabase } from '../support/faults/lose-database.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { isDeep } from '../support/harness/depth.ts';
import { githubTracker } from '../support/vendors/provider-servers/github.ts';
import { openProvider, type Provider } from '../support/vendors/provider-servers/provider.ts';

const VENDOR = githubTracker('a webhook secret for tests only');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

let world: World;
let provider: Provider<typeof VENDOR>;
let weather: Weather;

beforeEach(async () => {
  let clock: World['clock'] | undefined;
  weather = createWeather(() => clock?.elapsed() ?? 0);
  world = await createWorld({ faults: weather });
  clock = world.clock;
  provider = await openProvider(VENDOR, { clock });
  for (const title of ['Login', 'Search']) await world.people.createBug({ body: { title } }, {});
  await restart();
  await world.clock.advance(MINUTE);
  happen(1, 18);
  await caughtUp();
});
afterEach(async () => {
  await world.close();
  await provider.close();
});

async function restart(meanwhile?: (data: string) => unknown): Promise<void> {
  const github = { connector: 'github', ...VENDOR.options(provider.url), poll: '10m' };
  const config = { connections: { github }, rules: { triage: [{ create: 'bug' }] } };
  await world.restart({ config, ...(meanwhile && { meanwhile }) });
}

/**
 * Pull requests of these numbers open, or change; of every third an issue is opened too, which becomes a task, and which its pull
 * request names. Others name a task of the workspace.
 */
function happen(first: number, last: number, what = 'Change'): void {
  for (let number = first; number <= last; number++) {
    const named = number % 3 === 0 ? `Fixes #${1_000 + number}. ` : number % 3 === 1 ? `BUG-${1 + (number % 2)}: ` : '';
    if (number % 3 === 0) provider.change(1_000 + number, { title: `Issue ${number}` });
    const fields = { title: `${named}${what} ${number}`, description: '', state: 'open', draft: false } as const;
    const line = { at: 0, updated: 0, connection: 'github', event: 'opened', item: `1/${number}` };
    provider.happen(
      { ...line, fields: { ...fields, reviewers: [], labels: [], assignees: [], head: what } },
      world.clock.now(),
    );
  }
}

/** Polls come every ten minutes; after a restore a whole window of the quota counts as used. */
async function caughtUp(): Promise<void> {
  const end = world.clock.elapsed() + HOUR;
  await world.until(() => world.clock.elapsed() >= end, 2 * HOUR);
  await world.settled();
}

/** All that the workspace holds, as far as a double or a loss would show. */
async function content() {
  const { pullRequests } = (await world.people.listPullRequests({ query: { limit: 100 } }, {})).body;
  const { tasks } = (await world.people.listTasks({ query: { all: true } }, {})).body;
  const links: string[] = [];
  for (const { taskId, key } of tasks) {
    const { workItems } = (await world.people.listWorkItems({ taskId }, {})).body;
    links.push(...workItems.map(({ workItemId, url, externalId }) => `${key} ${workItemId} ${url} ${externalId}`));
  }
  return {
    records: pullRequests.map(({ identifier, title, state }) => `${identifier} ${state} ${title}`).sort(),
    tasks: tasks.map(({ taskId, key, source, title }) => `${key} ${taskId} ${source} ${title}`).sort(),
    links: links.sort(),
  };
}

/** Requests from now on that would change something. */
function writes(): () => string[] {
  const start = weather.arrivals.length;
  return () => weather.arrivals.slice(start).flatMap(({ method, url }) => (method === 'GET' ? [] : `${method} ${url}`));
}

/**
 * No record, no task, and no link that a record shows. What nothing shows is the link of a work item to its own task: it is added
 * again, which changes nothing, since a task has one link of an address.
 */
function expectLittle(written: readonly string[], workItems: number): void {
  expect(written.filter((each) => !/^POST \S+\/tasks\/[^/]+\/work-items$/.test(each))).toEqual([]);
  expect(written.length).toBeLessThanOrEqual(workItems);
}

/** Life goes on: what is new is written once, and nothing else. */
async function expectLife(number: number): Promise<void> {
  const before = await content();
  const seen = writes();
  happen(number, number);
  await caughtUp();
  const after = await content();
  expect(after.records).toHaveLength(before.records.length + 1);
  expect(after.tasks).toHaveLength(before.tasks.length + 1);
  // The issue's own link, and that of the pull request that names it.
  expect(after.links).toHaveLength(before.links.length + 2);
  expect(seen()).toHaveLength(4);
  for (const part of ['records', 'tasks', 'links'] as const)
    expect(after[part]).toEqual(expect.arrayContaining(before[part]));
}

function putCopy(data: string, backup: string): void {
  for (const end of ['', '-wal', '-shm']) rmSync(join(data, INSTALLATION_FILE + end), { force: true });
  copyFileSync(backup, join(data, INSTALLATION_FILE));
}

/** Makes a backup look like a file of a snapshot of the volume, which does not say that it is a copy. */
function unmark(file: string): void {
  const database = new BetterSqlite(file);
  database.pragma('user_version = 0');
  database.close();
}

/** The state of the workspace, and a backup that knows a part of it. */
async function liveOnAfterBackup() {
  const backup = join(world.dataFolder, 'older.backup');
  await backUp({ data: world.dataFolder }, backup);
  happen(1, 9, 'Changed since');
  happen(19, 27);
  await caughtUp();
  const before = await content();
  expect([before.records.length, before.tasks.length]).toEqual([27, 2 + 9]);
  return { backup, before };
}

describe('a workspace that is full', () => {
  it('beside a database that was deleted is read again: no record and no task is written, and nothing is doubled', async () => {
    const before = await content();
    expect([before.records.length, before.tasks.length, before.links.length]).toEqual([18, 2 + 6, 6 + 6 + 6]);
    const seen = writes();
    await restart(loseDatabase);
    await caughtUp();
    expect(await content()).toEqual(before);
    expectLittle(seen(), 6);
    expect((await world.partition().status()).verdict).toBe('ok');
    await expectLife(21);
  });

  it.runIf(isDeep)('beside an older copy that nobody said to be one doubles nothing either', async () => {
    const { backup, before } = await liveOnAfterBackup();
    const seen = writes();
    await restart((data) => {
      putCopy(data, backup);
      unmark(join(data, INSTALLATION_FILE));
    });
    await caughtUp();
    expect(await content()).toEqual(before);
    expect(seen().filter((each) => /\/(bugs|ideas)$/.test(each))).toEqual([]);
    await expectLife(30);
  });
});
