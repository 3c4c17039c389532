import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { backUp, restore } from '../../src/admin/installation/data.ts';
import { INSTALLATION_FILE } from '../../src/store/installation/installation.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { sampleOf } from '../support/harness/depth.ts';
import { githubTracker } from '../support/vendors/provider-servers/github.ts';
import { type HeldPull, openProvider, type Provider } from '../support/vendors/provider-servers/provider.ts';

/** A daemon with an older database that neither polls nor, where the vendor refuses, fetches. */

const SECRET = 'a webhook secret for tests only';
const VENDOR = githubTracker(SECRET);
const MINUTE = 60_000;
const PULLS = [1, 2, 3, 4, 5, 6];

let world: World;
let provider: Provider<typeof VENDOR>;
let fetched: string[];
let isForbidden: boolean;
let deliveries = 0;

beforeEach(async () => {
  fetched = [];
  isForbidden = false;
  world = await createWorld({
    http: (own) => ({
      ...own,
      async request(request) {
        if (!request.url.startsWith(provider?.url)) return own.request(request);
        fetched.push(new URL(request.url).pathname);
        const refused = { status: 403, headers: {}, body: Buffer.from('{"message":"Forbidden"}') };
        return isForbidden ? refused : own.request(request);
      },
    }),
  });
  provider = await openProvider(VENDOR, { clock: world.clock });
  await restart();
});
afterEach(async () => {
  await world.close();
  await provider.close();
});

async function restart(meanwhile?: (data: string) => unknown): Promise<void> {
  const github = { connector: 'github', ...VENDOR.options(provider.url), webhookSecrets: SECRET, poll: 'off' };
  await world.restart({ config: { connections: { github } }, ...(meanwhile && { meanwhile }) });
}

/** A pull request becomes so, and its webhook comes. */
async function happen(number: number, event: string, fields: Partial<HeldPull['fields']>): Promise<void> {
  await world.clock.advance(2_000);
  const before = provider.pulls.get(number)?.fields;
  const plain = { title: '', description: '', state: 'open', draft: false, head: 'a' } as const;
  const whole = { ...plain, reviewers: [], labels: [], assignees: [], ...before, ...fields };
  const line = { at: 0, updated: 0, connection: 'github', event, item: `1/${number}`, fields: whole };
  const pull = provider.happen(line, world.clock.now());
  expect(await world.post('github', VENDOR.hook(pull, event, `delivery-${++deliveries}`))).toBe(202);
}

async function records(): Promise<readonly string[]> {
  return (await world.records()).map(({ identifier, title, state }) => `${identifier} ${state} ${title}`).sort();
}

/** A full window of the quota counts as used after a restore. */
async function lateOn(): Promise<void> {
  await world.pass(40 * MINUTE);
  await world.settled();
}

/** Six open pull requests, a backup, and then all of them are merged under other titles. */
async function mergedAfterBackup(also: readonly string[] = []): Promise<string> {
  const backup = join(world.dataFolder, 'older.backup');
  for (const number of PULLS) await happen(number, 'opened', { title: `Old ${number}` });
  await world.settled();
  await backUp({ data: world.dataFolder }, backup);
  for (const number of PULLS) await happen(number, 'closed', { title: `New ${number}`, state: 'merged' });
  await world.settled();
  expect(await records()).toEqual([...PULLS.map((number) => `${number} merged New ${number}`), ...also]);
  return backup;
}

function writes(): () => string[] {
  const start = world.weather.arrivals.length;
  return () =>
    world.weather.arrivals.slice(start).flatMap(({ method, url }) => (method === 'GET' ? [] : `${method} ${url}`));
}

async function unverified(): Promise<number | undefined> {
  return (await world.partition().status()).connections.find(({ name }) => name === 'github')?.unverifiedItems;
}

function putCopy(data: string, backup: string): void {
  for (const end of ['', '-wal', '-shm']) rmSync(join(data, INSTALLATION_FILE + end), { force: true });
  copyFileSync(backup, join(data, INSTALLATION_FILE));
}

const WAYS: readonly [string, (data: string, backup: string) => unknown][] = [
  ['by the command', (data, backup) => restore({ data }, backup)],
  ['by hand', putCopy],
];

it.each(sampleOf(WAYS, 2))(
  'a backup restored %s writes no older state where the vendor cannot be asked',
  async (_name, putBack) => {
    const backup = await mergedAfterBackup();
    isForbidden = true;
    const seen = writes();
    await restart((data) => putBack(data, backup));
    const { long, burst } = (await world.partition().status()).quota;
    for (const { used, usedByBackground, cap } of [long, burst]) expect([used, usedByBackground]).toEqual([cap, cap]);
    await lateOn();
    expect(await records()).toEqual(PULLS.map((number) => `${number} merged New ${number}`));
    expect([seen(), await unverified()]).toEqual([[], PULLS.length]);

    await happen(1, 'edited', { title: 'Newest 1' });
    await world.settled();
    expect(await records()).toContain('1 merged Newest 1');
    expect([seen().length, await unverified()]).toEqual([1, PULLS.length - 1]);
  },
);

it.each(sampleOf(WAYS.toReversed(), 2))(
  'a backup restored %s is confirmed by fetches, open pull requests first',
  async (_name, putBack) => {
    await happen(7, 'closed', { title: 'Finished', state: 'merged' });
    const backup = await mergedAfterBackup(['7 merged Finished']);
    const seen = writes();
    fetched = [];
    await restart((data) => putBack(data, backup));
    await lateOn();
    expect([seen(), await unverified()]).toEqual([[], 0]);
    const asked = fetched.flatMap((path) => /\/pulls\/(\d+)$/.exec(path)?.[1] ?? []).map(Number);
    expect(asked).toEqual([...PULLS, 7]);
  },
);
