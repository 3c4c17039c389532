import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { optimum } from '../bench/quota/references/windows.ts';
import { createTracker, issue, type Tracker, tell } from '../support/fakes/tracker.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { allRecords } from '../support/harness/people.ts';
import { TOP } from '../support/harness/processes.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

const SECRET = 'a webhook secret for tests only';
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const PULLS = 300;
const TASKS = 5;
const ISSUES = 20;

const CONNECTIONS = {
  github: { connector: 'github', repositories: ['acme/app'], webhookSecrets: SECRET, poll: 'off' },
  tracker: { connector: 'tracker', webhookSecrets: SECRET, poll: 'off' },
};

/** The requests of one daemon to the workspace, by the status of the answer. */
interface Use {
  accepted: number[];
  refused: number[];
}

let tracker: Tracker;
let worlds: World[];
let uses: Use[];
afterEach(async () => {
  for (const world of worlds.splice(0).toReversed()) await world.close();
});
beforeEach(() => {
  tracker = createTracker();
  worlds = [];
  uses = [];
});

const first = () => worlds[0] as World;

async function start(rules: object = {}): Promise<void> {
  const use: Use = { accepted: [], refused: [] };
  const counting = (own: HttpClient): HttpClient => ({
    async request(request) {
      const answer = await own.request(request);
      if (request.target === 'workspace')
        (answer.status === 429 ? use.refused : use.accepted).push(first().clock.elapsed());
      return answer;
    },
    close: () => own.close(),
  });
  // The use of the quota by a daemon that does not know of the other.
  const quota = { requests: 200, burst: 40 };
  const config = { connections: CONNECTIONS, guard: { creations: 'off' }, quota, rules };
  worlds.push(await createWorld({ connectors: [tracker.connector], http: counting, config }, worlds[0]?.site));
  uses.push(use);
}

let told = 0;
/** The provider has a webhook for each of them. */
async function deliver(setting: PullSetting): Promise<void> {
  const updated = new Date(first().clock.now()).toISOString();
  const id = `told-${++told}`;
  for (const world of worlds)
    expect(await world.deliver('pull_request', pullEvent({ updated, ...setting }), { id })).toBe(202);
}

async function say(number: number): Promise<void> {
  const item = issue(number, { updatedAt: first().clock.now() });
  for (const world of worlds) expect(await tell(world.daemon().address, item, { secret: SECRET })).toBe(202);
}

async function settled(): Promise<void> {
  for (const world of worlds) await world.settled(24 * HOUR);
}

const records = async () => (await allRecords(first().people)).map(({ identifier, title }) => ({ identifier, title }));

const tasks = async () => (await first().people.listTasks({ query: { all: true } }, {})).body.tasks.toReversed();
const linksOf = async (taskId: string) =>
  (await first().people.listWorkItems({ taskId }, {})).body.workItems.map(({ url }) => url).toSorted();

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1);
const titleOf = (number: number, what: string) =>
  number % 10 === 0 ? `BUG-${1 + ((number / 10) % TASKS)}: ${what} ${number}` : `${what} ${number}`;
const numbers = upTo(PULLS);
const issues = upTo(ISSUES);

/** Requests that a daemon had accepted until a moment. */
const acceptedUntil = (moment: number) => uses.map(({ accepted }) => accepted.filter((at) => at <= moment).length);

describe('two daemons with a database each on one workspace', () => {
  it('create no duplicates, and share the quota by reacting to 429', async () => {
    await start({ triage: [{ create: 'bug' }] });
    for (let task = 1; task <= TASKS; task++) await first().people.createBug({ body: { title: `Task ${task}` } }, {});
    await start();
    await settled();
    const began = first().clock.elapsed();
    for (const number of numbers) await deliver({ number, title: titleOf(number, 'Change') });
    for (const number of issues) await say(number);
    await first().until(() => first().clock.elapsed() >= began + 20 * MINUTE, HOUR);
    for (const number of numbers.slice(0, 60)) await deliver({ number, title: titleOf(number, 'Edited') });
    await settled();

    const what = (number: number) => titleOf(number, number <= 60 ? 'Edited' : 'Change');
    const expected = numbers.map((number) => ({ identifier: String(number), title: what(number) }));
    expect(await records()).toEqual(expected);
    const held = await tasks();
    expect(held.map(({ source }) => source).toSorted()).toEqual(
      [...Array.from({ length: TASKS }, () => 'api'), ...issues.map((number) => issue(number).key)].toSorted(),
    );
    for (const [index, { taskId }] of held.filter(({ source }) => source === 'api').entries()) {
      const naming = numbers.filter((number) => number % 10 === 0 && (number / 10) % TASKS === index);
      const urls = naming.map((number) => `https://github.com/acme/app/pull/${number}`);
      expect(await linksOf(taskId)).toEqual(urls.toSorted());
    }
    for (const { taskId } of held.filter(({ source }) => source !== 'api'))
      expect(await linksOf(taskId)).toHaveLength(1);

    // Both wanted more than there is all the time, until the first of them was done.
    const ends = uses.map(({ accepted }) => accepted.at(-1) as number);
    const contended = acceptedUntil(Math.min(...ends));
    const all = acceptedUntil(Number.POSITIVE_INFINITY).reduce((sum, each) => sum + each, 0);
    const took = (Math.max(...ends) - began) / 1_000;
    for (const each of contended)
      expect(each / contended.reduce((sum, own) => sum + own, 0)).toBeGreaterThanOrEqual(0.4);
    expect(took / optimum(all)).toBeLessThanOrEqual(1.2);
    for (const { refused } of uses) {
      expect(refused.length).toBeGreaterThan(0);
      expect(refused.length).toBeLessThanOrEqual(7);
    }
  });

  it('that both triage create at most two tasks for an item, as README says', async () => {
    const rules = { triage: [{ create: 'bug' }] };
    await start(rules);
    await start(rules);
    await settled();
    for (const number of issues) await say(number);
    await settled();
    await first().until(() => first().clock.elapsed() >= 2 * HOUR, 3 * HOUR);
    for (const number of issues) await say(number);
    await settled();
    const bySource = Map.groupBy(await tasks(), ({ source }) => source);
    expect([...bySource.keys()].toSorted()).toEqual(issues.map((number) => issue(number).key).toSorted());
    expect(Math.max(...[...bySource.values()].map((made) => made.length))).toBeLessThanOrEqual(2);
    expect(readFileSync(join(TOP, 'README.md'), 'utf8')).toContain('Let only one of them triage');
  });
});
