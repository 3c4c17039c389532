import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import type { Faults } from '../../src/reference-service/http/faults.ts';
import { type Chance, createChance } from '../bench/quota/references/chance.ts';
import type { PlausibleServerOptions } from '../support/fakes/plausible-server/plausible-server.ts';
import { doubled } from '../support/fakes/plausible-server/seen.ts';
import { createTracker, issue, tell } from '../support/fakes/tracker.ts';
import { loseDatabase } from '../support/faults/lose-database.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { TOP } from '../support/harness/processes.ts';
import { type PullSetting, pullEvent, pullObject } from '../support/vendors/github-payloads.ts';

/** The reference service as `workspace serve --literal --headers X-One-` runs it, and a daemon with the settings of the profile. */

const LITERAL = { isLiteral: true, headerPrefix: 'X-One-' };
const PROFILE = 'config/examples/one-horizon.yaml';
const MINUTE = 60_000;
const PULLS = 300;
const WAVES = 12;
const TASKS = 60;

interface Profile {
  readonly workspace: { readonly url: string; readonly apiKey: string; readonly webhook: object };
  readonly connections: { readonly main: { readonly token: string } };
}

/** The profile with the addresses and secrets of a test. The provider cannot be polled, so webhooks alone bring changes. */
function settingsOf({ workspace, connections, ...others }: Profile, key: string) {
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

/** Kills the daemon before it sends a write, or after the service has carried the write out and before the answer arrives. */
interface Kill {
  readonly atWrite: number;
  readonly edge: 'before' | 'after';
}

interface Disturbances {
  readonly kills?: readonly Kill[];
  /** Whether the answer to a write that the service carried out is lost. */
  readonly loses?: (route: string) => boolean;
}

interface Site {
  readonly world: World;
  /** Requests that reached the service from the daemon, as `POST work-items`. */
  readonly arrived: Map<string, number>;
  /** How often each link was sent and accepted, by task and address. */
  readonly sentLinks: Map<string, number>;
  /** Tasks and links that existed more than once at some time. */
  readonly everDoubled: Set<string>;
  /** Answers that were lost, by route. */
  readonly lost: Map<string, number>;
  kills: number;
  deliver(setting: PullSetting): Promise<void>;
  report(number: number): Promise<void>;
  /** Lets time pass, and starts the daemon again after each kill. */
  pass(ms: number): Promise<void>;
  rest(): Promise<void>;
  /** Ends the daemon in order and starts it again. */
  restart(meanwhile?: (data: string) => unknown): Promise<void>;
}

let world: World | undefined;
afterEach(() => world?.close());

const tally = (counts: Map<string, number>, name: string) => counts.set(name, (counts.get(name) ?? 0) + 1);
/** Asked at the start, and again at a random time of each day. */
const RECORDS = 'GET pull-request-records';
const sum = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((all, each) => all + each, 0);
/** Requests without the read that comes at a random time of the day. */
const undated = (counts: ReadonlyMap<string, number>) => sum(counts) - (counts.get(RECORDS) ?? 0);

async function open({ kills = [], loses = () => false }: Disturbances = {}) {
  const arrived = new Map<string, number>();
  const sentLinks = new Map<string, number>();
  const everDoubled = new Set<string>();
  const lost = new Map<string, number>();
  const due = [...kills];
  let writes = 0;
  let revive: (() => Promise<void>) | undefined;
  const kill = (edge: Kill['edge']) => {
    if (due[0] === undefined || due[0].edge !== edge || due[0].atWrite > writes || revive) return false;
    due.shift();
    site.kills++;
    revive = (world as World).kill({ keepPort: true });
    return true;
  };
  const faults: Faults = {
    async before({ method, url, headers }) {
      if (!String(headers['authorization']).includes('wsk_')) return undefined;
      const kind = /(pull-request-records|pull-requests|work-items|bugs|ideas|tasks)[^/]*$/.exec(url)?.[1] ?? url;
      tally(arrived, `${method} ${method === 'DELETE' ? 'work-items' : kind}`);
      return undefined;
    },
  };
  const isLost: NonNullable<PlausibleServerOptions['loses']> = ({ method, route, ids, body }, { status }) => {
    if (method === 'GET' || status >= 300) return false;
    writes++;
    if (route === 'addWorkItem') tally(sentLinks, `${ids['taskId']} ${String(body['url'])}`);
    for (const name of doubled((world as World).server!.seen)) everDoubled.add(name);
    const isGone = kill('after') || loses(route);
    if (isGone) tally(lost, route);
    return isGone;
  };
  const http = (own: HttpClient): HttpClient => ({
    ...own,
    async request(request) {
      const [, number] = /^https:\/\/api\.github\.com\/repos\/acme\/app\/pulls\/(\d+)$/.exec(request.url) ?? [];
      if (number !== undefined) return { status: 200, headers: {}, body: shown(Number(number)) };
      if (request.target === 'workspace' && request.method !== 'GET') kill('before');
      return own.request(request);
    },
  });
  const tracker = createTracker();
  const profile = parse(readFileSync(join(TOP, PROFILE), 'utf8')) as Profile;
  const setting = { variant: LITERAL, behaviours: {}, connectors: [tracker.connector], faults, loses: isLost, http };
  world = await createWorld({ ...setting, config: settingsOf(profile, 'a shared key for tests only') });
  const own = world;
  await own.settled();
  const { key } = (
    await own.people.createWebhook({ body: { url: `${own.daemon().address}/webhooks/test/workspace` } }, {})
  ).body;
  const config = settingsOf(profile, key);
  const restart: Site['restart'] = (meanwhile) =>
    own.restart({ config, keepPort: true, ...(meanwhile && { meanwhile }) });
  await restart();

  async function until(condition: () => boolean | Promise<boolean>, limit: number): Promise<void> {
    for (;;) {
      await own.until(async () => revive !== undefined || (await condition()), limit);
      if (revive === undefined) return;
      const start = revive;
      await start();
      revive = undefined;
    }
  }
  /** Repeats a delivery until the daemon accepts it, because a killed process accepts none. */
  async function accepted(send: () => Promise<number>): Promise<void> {
    while ((await send()) !== 202) await until(() => true, 0);
  }
  let minute = 0;
  const atProvider = new Map<number, PullSetting>();
  const shown = (number: number) => Buffer.from(JSON.stringify(pullObject(atProvider.get(number))));
  const site: Site = {
    ...{ world: own, arrived, sentLinks, everDoubled, lost, restart },
    kills: 0,
    async deliver(pull) {
      const updated = new Date(Date.UTC(2026, 0, 6, 9, ++minute)).toISOString();
      atProvider.set(pull.number ?? 1, { ...pull, updated });
      await accepted(() => own.deliver('pull_request', pullEvent({ ...pull, updated })));
    },
    async report(number) {
      const item = issue(number, { updatedAt: own.clock.now(), labels: ['ui'], priority: 'P1' });
      await accepted(() => tell(own.daemon().address, item, { secret: WEBHOOK_SECRET }).catch(() => 0));
    },
    async pass(ms) {
      const end = own.clock.elapsed() + ms;
      own.clock.after(ms, () => undefined);
      await until(() => own.clock.elapsed() >= end, 2 * ms);
    },
    rest: () => until(own.isSettled, 6 * 60 * MINUTE),
  };
  return site;
}

const urlOf = (number: number) => `https://github.com/acme/app/pull/${number}`;
const newTask = async (title: string) => (await world!.people.createBug({ body: { title } }, {})).body.taskId;

/** Present links: how often each address is linked to each task. */
async function presentLinks(): Promise<{ tasks: readonly string[]; links: Map<string, number> }> {
  const { tasks } = (await world!.people.listTasks({ query: { all: true } }, {})).body;
  const links = new Map<string, number>();
  for (const { taskId } of tasks)
    for (const { url } of (await world!.people.listWorkItems({ taskId }, {})).body.workItems)
      tally(links, `${taskId} ${url}`);
  return { tasks: tasks.map(({ taskId, title }) => `${taskId} ${title}`), links };
}

/** Where a pull request names its task. */
const NAMINGS: readonly ((taskId: string, number: number) => PullSetting)[] = [
  (taskId, number) => ({ number, title: `${taskId}: change ${number}` }),
  (taskId, number) => ({ number, head: `${taskId}-change-${number}` }),
  (taskId, number) => ({ number, title: `Change ${number}`, body: `For ${taskId}.` }),
];

interface Pull {
  readonly setting: PullSetting;
  readonly taskId: string;
}

it.each([11, 12, 13])(
  'a day of 300 pull requests with kills and lost answers ends with each link once, and opens nothing: seed %i',
  async (seed) => {
    const chance: Chance = createChance(seed);
    const kills = Array.from(
      { length: 10 },
      (_, at): Kill => ({ atWrite: 12 + 35 * at, edge: at % 2 ? 'before' : 'after' }),
    );
    const routes = new Set<string>();
    const loses = (route: string) => {
      const isFirst = !routes.has(route);
      routes.add(route);
      return isFirst || chance.happens(0.05);
    };
    const site = await open({ kills, loses });
    const pulls = new Map<number, Pull>();
    const tasks: string[] = [];
    const deliver = async (pull: Pull) => {
      pulls.set(pull.setting.number as number, pull);
      await site.deliver(pull.setting);
    };
    const any = <Each>(all: readonly Each[]) => all[chance.whole(0, all.length - 1)] as Each;
    const byHand: string[] = [];
    let issues = 0;
    for (let wave = 0; wave < WAVES; wave++) {
      for (let more = 0; more < TASKS / WAVES; more++) tasks.push(await newTask(`Task ${tasks.length + 1}`));
      for (let more = 0; more < PULLS / WAVES; more++) {
        const number = pulls.size + 1;
        const taskId = any(tasks);
        await deliver({ taskId, setting: any(NAMINGS)(taskId, number) });
        if (chance.happens(0.3)) await site.pass(chance.between(1_000, 30_000));
      }
      for (let more = 0; more < 2; more++) await site.report(++issues);
      await site.pass(chance.between(0, 10 * MINUTE));
      for (const { setting, taskId } of Array.from({ length: 10 }, () => any([...pulls.values()]))) {
        const { number = 0, state, merged } = setting;
        const act = chance.whole(0, 3);
        const other = any(tasks);
        if (act === 0) await deliver({ taskId, setting: { ...setting, state: 'closed' } });
        else if (act === 1) await deliver({ taskId, setting: { ...setting, state: 'closed', merged: true } });
        else if (act === 2 && state !== 'closed' && !merged)
          await deliver({ taskId: other, setting: any(NAMINGS)(other, number) });
        else await deliver({ taskId, setting: { ...setting, labels: ['late'] } });
      }
      await site.report(chance.whole(1, issues));
      await site.pass(chance.between(10 * MINUTE, 40 * MINUTE));
    }
    const extra = await newTask('Linked by hand');
    for (const number of [1, 100, 200]) {
      await world!.people.addWorkItem({ taskId: extra, body: { url: urlOf(number) } }, {});
      byHand.push(`${extra} ${urlOf(number)}`);
    }
    await site.rest();
    await site.pass(10 * MINUTE);
    await site.rest();
    const before = undated(site.arrived);
    await site.restart();
    await site.rest();
    await site.pass(10 * MINUTE);
    await site.rest();

    const present = await presentLinks();
    const wanted = [...pulls.values()].map(({ taskId, setting }) => `${taskId} ${urlOf(setting.number as number)}`);
    const own = [...present.links].filter(([name]) => !name.includes('/issues/'));
    expect(new Map(own)).toEqual(new Map([...wanted, ...byHand].map((name) => [name, 1])));
    for (let number = 1; number <= issues; number++) {
      const made = present.tasks.filter((task) => task.endsWith(` Issue ${number}`));
      expect(made).toHaveLength(1);
      expect(present.links.get(`${made[0]?.split(' ')[0]} ${issue(number).url}`)).toBe(1);
    }
    expect(present.links.size).toBe(own.length + issues);
    expect([...site.everDoubled]).toEqual([]);
    expect([...site.arrived.keys()].filter((name) => name.includes('pull-request'))).toEqual([RECORDS]);
    expect(site.arrived.get(RECORDS)).toBeLessThanOrEqual(2);
    expect(undated(site.arrived)).toBe(before);
    expect(site.kills).toBe(kills.length);
    expect([...site.lost.keys()].sort()).toEqual(['addWorkItem', 'createBug', 'removeWorkItem']);
    const { deliveries, changes } = await site.world.partition().status();
    expect(deliveries.quarantined).toBe(0);
    expect(changes.byState).toEqual({ pending: 0, sending: 0, unknown: 0, held: 0 });
  },
);

it('a first start beside present tasks and links sends at most 3 + 2 N requests, and a restart none', async () => {
  const N = 50;
  const site = await open();
  const tasks: string[] = [];
  for (let number = 1; number <= N; number++) tasks.push(await newTask(`Task ${number}`));
  for (let number = 1; number <= N / 5; number++)
    await site.world.people.addWorkItem({ taskId: tasks[number - 1] as string, body: { url: urlOf(number) } }, {});
  await site.rest();
  await site.restart(loseDatabase);
  site.arrived.clear();
  for (const [at, taskId] of tasks.entries())
    await site.deliver((NAMINGS[at % NAMINGS.length] as (typeof NAMINGS)[number])(taskId, at + 1));
  await site.rest();
  expect(sum(site.arrived)).toBeLessThanOrEqual(3 + 2 * N);
  expect([...site.sentLinks].filter(([, times]) => times > 1)).toEqual([]);
  const { links } = await presentLinks();
  expect(links).toEqual(new Map(tasks.map((taskId, at) => [`${taskId} ${urlOf(at + 1)}`, 1])));
  const before = undated(site.arrived);
  await site.restart();
  await site.rest();
  await site.pass(10 * MINUTE);
  expect(undated(site.arrived)).toBe(before);
});
