import { createServer, type ServerResponse } from 'node:http';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createWorld, GITHUB, type World } from '../support/harness/daemon.ts';
import { listenLocally } from '../support/harness/listen.ts';
import { type PullSetting, pullEvent, pullObject } from '../support/vendors/github-payloads.ts';

let world: World;
let close: () => void;
let apiUrl: string;
/** The pull request as GitHub has it, and the requests to GitHub. */
let held: { head: string; updated: string; messages: readonly string[] };
let asked: string[];
/** Runs while the next request for the pull request is answered with its state from before. */
let whileAnswering: () => Promise<unknown>;
/** And when its commits were answered. */
let afterCommits: () => void;

beforeEach(async () => {
  asked = [];
  whileAnswering = async () => undefined;
  afterCommits = () => undefined;
  held = { head: 'a', updated: '2026-01-05T09:00:00Z', messages: [] };
  const respond = async (url: string, response: ServerResponse) => {
    asked.push(url);
    const body = JSON.stringify(answer(url));
    if (url.endsWith('/pulls/1')) await whileAnswering();
    if (url.includes('/commits?')) afterCommits();
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  };
  const server = createServer(({ url = '' }, response) => void respond(url, response));
  close = () => {
    server.closeAllConnections();
    server.close();
  };
  apiUrl = await listenLocally(server);
  world = await createWorld({ config: connected(apiUrl, true) });
  await world.bug();
});
afterEach(async () => {
  await world.close();
  close();
});

function answer(url: string): unknown {
  if (url.includes('/commits?')) return held.messages.map((message) => ({ commit: { message } }));
  if (url.includes('/pulls?')) return [pull()];
  return url.endsWith('/pulls/1') ? pull() : { id: 5_001, full_name: 'acme/app' };
}

function connected(apiUrl: string, commits: boolean) {
  return { connections: { github: { ...GITHUB, apiUrl, token: 'a-token-of-the-tests', commits } } };
}

function pull(setting: PullSetting = {}) {
  const object = pullObject({ updated: held.updated, ...setting });
  return { ...object, head: { ...object.head, sha: held.head.repeat(40) } };
}

async function tell(action: string, setting: PullSetting = {}): Promise<void> {
  await world.deliver('pull_request', { ...pullEvent({}, action), pull_request: pull(setting) });
  await world.settled();
}

async function push(messages: readonly string[], action = 'synchronize'): Promise<void> {
  const second = Number(held.updated.slice(17, 19)) + 1;
  const head = String.fromCharCode(held.head.charCodeAt(0) + 1);
  held = { head, messages, updated: `2026-01-05T09:00:0${second}Z` };
  await tell(action);
}

async function linked(): Promise<boolean> {
  const [task] = await world.tasks();
  return (await world.links(task!.taskId)).length > 0;
}

it('a trailer of a commit links the task, and a forced push without it takes the link away', async () => {
  await push(['Begin', 'Mend it\n\nTask: bug-1'], 'opened');
  expect(await linked()).toBe(true);
  await push(['Begin', 'Mend it otherwise']);
  expect(await linked()).toBe(false);
  expect(asked).toEqual([
    '/repos/acme/app/pulls/1',
    '/repos/acme/app/pulls/1/commits?per_page=100',
    '/repos/acme/app/pulls/1',
    '/repos/acme/app/pulls/1/commits?per_page=100',
  ]);
});

it('a push while the one before is still being read is read too', async () => {
  const first = { ...held, head: 'b', messages: ['Begin'], updated: '2026-01-05T09:00:01Z' };
  const second = { ...held, head: 'c', messages: ['Mend it\n\nTask: bug-1'], updated: '2026-01-05T09:00:02Z' };
  held = first;
  // It comes between the pull request and its commits, which are the same ones.
  whileAnswering = async () => {
    whileAnswering = async () => undefined;
    held = second;
    await world.deliver('pull_request', { ...pullEvent({}, 'synchronize'), pull_request: pull() });
    held = first;
    afterCommits = () => void (held = second);
  };
  await tell('opened');
  expect(await linked()).toBe(true);
});
