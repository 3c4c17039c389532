import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { doubled } from '../support/fakes/plausible-server/seen.ts';
import { createTracker, issue, tell } from '../support/fakes/tracker.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { TOP } from '../support/harness/processes.ts';
import { type PullSetting, pullObject } from '../support/vendors/github-payloads.ts';

const LITERAL = { isLiteral: true, headerPrefix: 'X-One-' };
const PROFILE = 'config/examples/one-horizon.yaml';
const MINUTE = 60_000;

interface Profile {
  readonly workspace: { readonly url: string; readonly apiKey: string; readonly webhook: object };
  readonly connections: { readonly main: { readonly token: string } };
}

/** The profile with the addresses and secrets of a test. The provider cannot be polled, so webhooks alone bring changes. */
function settingsOf(key: string) {
  const profile = parse(readFileSync(join(TOP, PROFILE), 'utf8')) as Profile;
  const { workspace, connections, ...others } = profile;
  const { url: _url, apiKey: _apiKey, ...api } = workspace;
  const { token: _token, ...main } = connections.main;
  return {
    ...others,
    workspace: { ...api, webhook: { ...workspace.webhook, key } },
    connections: {
      github: { ...main, repositories: ['acme/app'], webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
      tracker: { connector: 'tracker', webhookSecrets: WEBHOOK_SECRET, poll: 'off' },
    },
    rules: { triage: [{ create: 'bug', labels: ['external'], priority: { '*': 'high' } }] },
  };
}

let world: World;
let config: ReturnType<typeof settingsOf>;
/** Requests of the daemon that reached the service, as `POST work-items`. */
const arrived: string[] = [];
/** Tasks and links that existed more than once at some time. */
const everDoubled = new Set<string>();
/** Routes of which the first answer was lost, although the service had carried the write out. */
const lost = new Set<string>();
const atProvider = new Map<number, PullSetting>();
afterEach(() => world.close());

/** Asked at the start, and again at a random time of each day. */
const RECORDS = 'GET pull-request-records';
const undated = () => arrived.filter((name) => name !== RECORDS).length;

async function open(): Promise<void> {
  const tracker = createTracker();
  const http = (own: HttpClient): HttpClient => ({
    ...own,
    async request(request) {
      const [, number] = /^https:\/\/api\.github\.com\/repos\/acme\/app\/pulls\/(\d+)$/.exec(request.url) ?? [];
      if (number === undefined) return own.request(request);
      const body = JSON.stringify(pullObject(atProvider.get(Number(number))));
      return { status: 200, headers: {}, body: Buffer.from(body) };
    },
  });
  config = settingsOf('a shared key for tests only');
  world = await createWorld({
    ...{ variant: LITERAL, behaviours: {}, connectors: [tracker.connector], http, config },
    faults: {
      async before({ method, url, headers }) {
        const kind = /(pull-request-records|pull-requests|work-items|bugs|ideas|tasks)[^/]*$/.exec(url)?.[1] ?? url;
        if (String(headers['authorization']).includes('wsk_')) arrived.push(`${method} ${kind}`);
        return undefined;
      },
    },
    loses({ method, route }, { status }) {
      if (method === 'GET' || status >= 300) return false;
      for (const name of doubled(world.server!.seen)) everDoubled.add(name);
      const isFirst = !lost.has(route);
      lost.add(route);
      return isFirst;
    },
  });
  await world.settled();
  const url = `${world.daemon().address}/webhooks/test/workspace`;
  config = settingsOf((await world.people.createWebhook({ body: { url } }, {})).body.key);
  await world.restart({ config, keepPort: true });
}

const urlOf = (number: number) => `https://github.com/acme/app/pull/${number}`;
const newTask = async (title: string) => (await world.people.createBug({ body: { title } }, {})).body.taskId;

/** Pull requests that name their task in the title, in the branch, or in the description. */
const NAMINGS: readonly ((taskId: string, number: number) => PullSetting)[] = [
  (taskId, number) => ({ number, title: `${taskId}: change ${number}` }),
  (taskId, number) => ({ number, head: `${taskId}-change-${number}` }),
  (taskId, number) => ({ number, title: `Change ${number}`, body: `For ${taskId}.` }),
];

let minute = 0;
async function deliver(setting: PullSetting): Promise<void> {
  const updated = new Date(Date.UTC(2026, 0, 6, 9, ++minute)).toISOString();
  atProvider.set(setting.number as number, { ...setting, updated });
  await world.pull({ ...setting, updated });
}

async function report(number: number): Promise<void> {
  const item = issue(number, { updatedAt: world.clock.now(), labels: ['ui'], priority: 'P1' });
  expect(await tell(world.daemon().address, item, { secret: WEBHOOK_SECRET })).toBe(202);
}

/** Present links, as task and address, one for each time that they exist. */
async function presentLinks(): Promise<string[]> {
  const { tasks } = (await world.people.listTasks({ query: { all: true } }, {})).body;
  const links = await Promise.all(tasks.map(({ taskId }) => world.links(taskId)));
  return tasks.flatMap(({ taskId }, at) => (links[at] ?? []).map(({ url }) => `${taskId} ${url}`)).sort();
}

it('a day with kills and lost answers ends with each link once, and opens nothing', async () => {
  await open();
  const tasks = await Promise.all(Array.from({ length: 6 }, (_, index) => newTask(`Task ${index}`)));
  const wanted = new Map<number, string>();
  const change = async (number: number, task: number, more: PullSetting = {}) => {
    const taskId = tasks[task % tasks.length] as string;
    wanted.set(number, `${taskId} ${urlOf(number)}`);
    await deliver({ ...NAMINGS[number % NAMINGS.length]?.(taskId, number), ...more });
  };
  for (let wave = 0; wave < 4; wave++) {
    for (let number = 8 * wave + 1; number <= 8 * wave + 8; number++) await change(number, number);
    await report(wave + 1);
    await world.pass(wave * 1_500);
    await world.kill({ keepPort: true })();
    await world.pass(10 * MINUTE);
    await change(8 * wave + 1, wave + 2);
    await change(8 * wave + 2, 8 * wave + 2, { state: 'closed', merged: true });
    await change(8 * wave + 3, 8 * wave + 3, { labels: ['late'] });
    await report(wave + 1);
    await world.pass(20 * MINUTE);
  }
  await world.people.addWorkItem({ taskId: tasks[0] as string, body: { url: urlOf(99) } }, {});
  await world.settled();
  const before = undated();
  await world.restart({ config, keepPort: true });
  await world.pass(20 * MINUTE);
  await world.settled();

  const made = (await world.tasks()).filter(({ title }) => title.startsWith('Issue '));
  expect(made.map(({ title }) => title).sort()).toEqual([1, 2, 3, 4].map((number) => `Issue ${number}`));
  const ofIssues = made.map(({ taskId, title }) => `${taskId} ${issue(Number(title.split(' ')[1])).url}`);
  expect(await presentLinks()).toEqual([...wanted.values(), ...ofIssues, `${tasks[0]} ${urlOf(99)}`].sort());
  expect([...everDoubled]).toEqual([]);
  expect(new Set(arrived.filter((name) => name.includes('pull-request')))).toEqual(new Set([RECORDS]));
  expect(undated()).toBe(before);
  expect([...lost].sort()).toEqual(['addWorkItem', 'createBug', 'removeWorkItem']);
  const { deliveries, changes } = await world.partition().status();
  expect([deliveries.quarantined, changes.byState]).toEqual([0, { pending: 0, sending: 0, unknown: 0, held: 0 }]);
});
