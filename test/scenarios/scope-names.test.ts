import { createServer } from 'node:http';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { checkAll } from '../../src/admin/status/check.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { listenLocally } from '../support/harness/listen.ts';

const DAY = 24 * 3_600_000;

/** GitHub, as far as repositories and their open pull requests go: by id → the name, and the numbers of its requests. */
const repositories = new Map<number, { name: string; pulls: number[] }>();
/** GitHub has had enough requests, and says so in seconds. */
let isLimited = false;
/** Former names, which GitHub redirects. */
const moved = new Map<string, number>();
const asked: string[] = [];
let world: World;
let close: () => void;
let apiUrl: string;

const pullOf = (id: number, name: string, number: number, at: number) => ({
  ...{ number, title: `Change ${number}`, body: null, state: 'open', draft: false, merged_at: null, user: null },
  ...{ html_url: `https://github.com/${name}/pull/${number}`, updated_at: new Date(at).toISOString() },
  ...{ head: { ref: 'topic', sha: 'a' }, base: { ref: 'main', repo: { id, full_name: name } } },
  ...{ labels: [], assignees: [], requested_reviewers: [], requested_teams: [] },
});

beforeEach(async () => {
  repositories.clear();
  moved.clear();
  asked.length = 0;
  isLimited = false;
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://x').pathname;
    asked.push(path);
    const [, name, numbered, list] = /^\/(?:repos\/([^/]+\/[^/]+)|repositories\/(\d+))(\/pulls)?$/.exec(path) ?? [];
    const byName = [...repositories].find(([, each]) => each.name === name)?.[0];
    const to = name === undefined || byName !== undefined ? undefined : moved.get(name);
    const id = byName ?? Number(numbered);
    const found = repositories.get(id);
    response.setHeader('date', new Date(world.clock.now()).toUTCString());
    if (isLimited) response.writeHead(429, { 'retry-after': '1500' }).end('{"message":"Too many"}');
    else if (to !== undefined)
      response.writeHead(301, { location: `${apiUrl}/repositories/${to}${list ?? ''}` }).end('{}');
    else if (!found) response.writeHead(404).end('{"message":"Not Found"}');
    else if (list)
      response.end(JSON.stringify(found.pulls.map((each) => pullOf(id, found.name, each, world.clock.now()))));
    else response.end(JSON.stringify({ id, full_name: found.name }));
  });
  apiUrl = await listenLocally(server);
  close = () => server.close();
});
afterEach(async () => {
  await world.close();
  close();
});

async function open(): Promise<void> {
  const github = { connector: 'github', token: 'ghp_x', apiUrl, webhookSecrets: WEBHOOK_SECRET, poll: '10m' };
  world = await createWorld({ config: { connections: { github: { ...github, repositories: ['acme/api'] } } } });
  await polled();
}

/** The next whole cycle of polls, and all that follows from it: what it finds may still be on its way when all else rests. */
async function polled(finds?: string): Promise<void> {
  const before = asked.length;
  await world.until(() => asked.slice(before).some((path) => path.endsWith('/pulls')), DAY);
  if (finds !== undefined) await world.until(async () => (await records()).includes(finds), DAY);
  await world.settled();
}

async function hook(id: number, number: number, name = repositories.get(id)?.name ?? ''): Promise<void> {
  const pull = pullOf(id, name, number, world.clock.now());
  const payload = { action: 'edited', number, pull_request: pull, repository: { id, full_name: name } };
  expect(await world.deliver('pull_request', payload)).toBe(202);
  await world.settled();
}

async function records(): Promise<string[]> {
  return (await world.records()).map(({ repoId, identifier }) => `${repoId}#${identifier}`).sort();
}

const rebind = (connection: string) => world.ask('rebind', { connection });

async function names() {
  const [connection] = (await world.partition().status()).connections;
  return connection?.names;
}

it('nothing is taken from a repository that was made under the same name, until somebody says that it is meant', async () => {
  repositories.set(1, { name: 'acme/api', pulls: [1] });
  await open();
  await world.until(async () => (await records()).includes('1#1'), DAY);
  repositories.delete(1);
  repositories.set(2, { name: 'acme/api', pulls: [7] });
  await hook(2, 8);
  await polled();
  await world.clock.advance(20 * 60_000);
  await world.settled();
  expect(await records()).toEqual(['1#1']);
  expect(await names()).toEqual([{ name: 'acme/api', id: '1', called: 'acme/api', elsewhere: '2' }]);
  expect(asked.filter((path) => path.startsWith('/repositories/2'))).toEqual([]);
  const found = await checkAll({ partitions: [world.partition()], wrong: new Map(), clock: world.clock });
  expect(found).toContainEqual(
    expect.objectContaining({
      level: 'error',
      message: expect.stringContaining('scope_rebound') as string,
      hint: expect.stringContaining('connections rebind github') as string,
    }),
  );

  const bound = await rebind('github');
  expect(bound).toEqual([{ name: 'acme/api', id: '2', called: 'acme/api' }]);
  expect(await names()).toEqual([]);
  await polled('2#7');
  await hook(2, 9);
  // Events of the former repository do not match any more.
  await hook(1, 5, 'acme/api');
  expect(await records()).toEqual(['1#1', '2#7', '2#9']);
  expect(await rebind('github')).toEqual([]);
  await expect(rebind('nosuch')).rejects.toMatchObject({ code: 'usage' });
});
