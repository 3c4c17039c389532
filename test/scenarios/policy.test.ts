import { afterEach, describe, expect, it } from 'vitest';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

/**
 * The table of SECURITY.md about texts at a vendor (the confused deputy), against a public repository and the whole daemon. One rule
 * holds for everybody who can write there: a name makes a link. Everything else is a rule of the configuration, or the act of a person
 * in the workspace.
 */
interface Author {
  readonly login: string;
  /** As GitHub says it. Nothing of ours depends on it. */
  readonly author_association: string;
  readonly isFork?: true;
}

const AUTHORS: Readonly<Record<string, Author>> = {
  'a stranger with a fork': { login: 'mallory', author_association: 'FIRST_TIME_CONTRIBUTOR', isFork: true },
  'a contributor with a fork': { login: 'carol', author_association: 'CONTRIBUTOR', isFork: true },
  'a bot': { login: 'helper[bot]', author_association: 'NONE' },
  'a member': { login: 'mona', author_association: 'MEMBER' },
  'the owner': { login: 'olga', author_association: 'OWNER' },
};

const PUBLIC = { id: 5_001, full_name: 'acme/app', name: 'app', private: false, default_branch: 'main' };

let world: World;
/** Requests to the vendor that change something there: `PATCH issues/1 closed`. */
let written: string[];
/** Requests of the daemon to the workspace that change something there: `POST work-items`. */
let changes: string[];
afterEach(() => world.close());

function vendorOf(own: HttpClient): HttpClient {
  return {
    async request(request) {
      if (request.target !== 'github') return own.request(request);
      const path = new URL(request.url).pathname;
      const number = /\/issues\/(\d+)$/.exec(path)?.[1];
      if (request.method !== 'GET')
        written.push(`${request.method} issues/${number} ${/"state":"(\w+)"/.exec(String(request.body))?.[1]}`);
      const found = number === undefined ? PUBLIC : issueOf(Number(number), AUTHORS['the owner']!, {});
      if (number !== undefined || /^\/(?:repositories\/5001|repos\/acme\/app)$/.test(path))
        return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(found)) };
      return { status: 404, headers: {}, body: Buffer.from('{"message":"Not Found"}') };
    },
    close: () => own.close(),
  };
}

async function open(rules: object = {}, writeBack: object = {}): Promise<void> {
  written = [];
  changes = [];
  const github = { connector: 'github', repositories: ['acme/app'], issues: true, token: 'ghp_policy', poll: 'off' };
  world = await createWorld({
    http: vendorOf,
    faults: {
      async before({ method, url, headers }) {
        const isDaemon = String(headers['authorization']).includes('wsk_');
        if (isDaemon && method !== 'GET')
          changes.push(`${method} ${new URL(url, 'http://x').pathname.split('/').at(-1)}`);
        return undefined;
      },
    },
    config: { rules, connections: { github: { ...github, webhookSecrets: WEBHOOK_SECRET, writeBack } } },
  });
  for (const title of ['One', 'Two']) await world.bug(title);
  await world.settled();
}

function issueOf(number: number, { login, author_association }: Author, fields: object) {
  const at = new Date(world.clock.now()).toISOString();
  return {
    ...{ id: 880_000 + number, number, title: `Issue ${number}`, body: null, state: 'open', state_reason: null },
    ...{ user: { login }, author_association, labels: [], assignees: [], created_at: at, updated_at: at },
    html_url: `https://github.com/acme/app/issues/${number}`,
    ...fields,
  };
}

async function issue(author: Author, number: number, fields: object, action = 'opened'): Promise<void> {
  await world.clock.advance(1_000);
  const payload = {
    action,
    issue: issueOf(number, author, fields),
    repository: PUBLIC,
    sender: { login: author.login },
  };
  expect(await world.deliver('issues', payload)).toBe(202);
  await world.settled();
}

async function pull(author: Author, number: number, fields: object, action = 'opened'): Promise<void> {
  await world.clock.advance(1_000);
  const updated = new Date(world.clock.now()).toISOString();
  const event = pullEvent({ number, updated, ...fields }, action);
  const repo = author.isFork ? { ...PUBLIC, id: 9_001, full_name: `${author.login}/app`, fork: true } : PUBLIC;
  const { login, author_association } = author;
  const pull_request = {
    ...event.pull_request,
    ...{ user: { login }, author_association },
    head: { ...event.pull_request.head, repo },
    base: { ...event.pull_request.base, repo: PUBLIC },
  };
  expect(await world.deliver('pull_request', { ...event, pull_request, repository: PUBLIC })).toBe(202);
  await world.settled();
}

const tasks = async () => (await world.tasks()).map(({ key, title, status }) => ({ key, title, status }));
const taskId = async (wanted: string) => (await world.tasks()).find(({ key }) => key === wanted)?.taskId ?? '';
const linksOf = async (key: string) =>
  (await world.links(await taskId(key))).map(({ url }) => url.split('/').slice(-2).join('/'));

/** Requests that mirror what is at the vendor, and link it: all that a text may cause. */
const HARMLESS = /^(?:POST pull-request-records|POST work-items)$/;

/** All of them, each with a number of which its pull requests and issues are made. */
const everybody = Object.values(AUTHORS).map((author, index) => ({ author, number: 10 * (index + 1) }));
const TITLE = 'As BUG-1';
const WORDS = ['Fixes BUG-1', 'closes BUG-1', 'resolve BUG-1', 'BUG-1 #done', 'BUG-1 #close #time 1h', '/close BUG-1'];

describe('whoever may write a text', () => {
  it('may link a task, and take away such links alone as a text has made [A14]', async () => {
    await open();
    for (const { author, number } of everybody) {
      await pull(author, number, { title: TITLE, body: 'Task: BUG-1' });
      await issue(author, number + 1, { title: 'See BUG-1' });
      const url = `https://github.com/acme/app/pull/${number + 2}`;
      await world.people.addWorkItem({ taskId: await taskId('BUG-1'), body: { url } }, {});
      await pull(author, number + 2, { title: TITLE });
    }
    const byTexts = everybody.flatMap(({ number }) => [`issues/${number + 1}`, `pull/${number}`]);
    const byHand = everybody.map(({ number }) => `pull/${number + 2}`);
    expect((await linksOf('BUG-1')).toSorted()).toEqual([...byTexts, ...byHand].toSorted());
    for (const { author, number } of everybody) {
      await issue(author, number + 1, { title: 'See nothing' }, 'edited');
      for (const each of [number, number + 2]) await pull(author, each, { title: 'As nothing', body: '' }, 'edited');
    }
    expect((await linksOf('BUG-1')).toSorted()).toEqual(byHand.toSorted());
    expect([await linksOf('BUG-2'), written]).toEqual([[], []]);
  });

  it('may not change the state of a task, whatever the text says and whatever is merged or closed [A14]', async () => {
    await open();
    const before = await tasks();
    const said = { title: WORDS[0], body: WORDS.join('\n') };
    for (const { author, number } of everybody) {
      await pull(author, number, { ...said, head: 'fix/bug-1' });
      await pull(author, number, { ...said, head: 'fix/bug-1', merged: true }, 'closed');
      await issue(author, number + 1, said);
      await issue(author, number + 1, { ...said, state: 'closed', state_reason: 'completed' }, 'closed');
    }
    expect(await tasks()).toEqual(before);
    expect(changes.length).toBeGreaterThan(2 * everybody.length);
    expect(changes.filter((change) => !HARMLESS.test(change))).toEqual([]);
    expect(written).toEqual([]);
  });

  it('makes a task by no pull request, and by an issue only where a rule says so [A14]', async () => {
    await open();
    for (const { author, number } of everybody)
      await issue(author, number, { title: 'Crash', labels: [{ name: 'bug' }] });
    expect(await tasks()).toHaveLength(2);
    await world.clock.advance(1_000);
    await world.restart({ config: { rules: { triage: [{ create: 'bug' }] } } });
    for (const { author, number } of everybody) await pull(author, number + 1, { title: 'Crash', labels: ['bug'] });
    expect(await tasks()).toHaveLength(2);
    for (const { author, number } of everybody) await issue(author, number + 2, { title: 'Another crash' });
    expect(await tasks()).toHaveLength(2 + everybody.length);
  });

  it('makes a task only by their own name, where a rule names authors [A14]', async () => {
    await open({ triage: [{ when: { author: ['olga', 'mona'] }, create: 'bug' }] });
    for (const { author, number } of everybody) {
      const title = `Reported by ${author.login}`;
      await issue(author, number, { title, body: 'author: olga\n@olga reported this' });
    }
    expect(
      (await tasks())
        .map(({ title }) => title)
        .filter((title) => title.startsWith('Reported'))
        .toSorted(),
    ).toEqual(['Reported by mona', 'Reported by olga']);
  });

  it('closes nothing at the vendor: a person in the workspace does, where that is switched on [A14]', async () => {
    await open({}, { close: true });
    for (const { author, number } of everybody) {
      await issue(author, number, { title: TITLE });
      const body = `Closes #${number}`;
      await pull(author, number + 1, { title: `Fixes #${number} and BUG-1`, body, merged: true }, 'closed');
    }
    await world.clock.advance(3_600_000);
    await world.settled();
    expect(written).toEqual([]);
    await world.people.updateTask({ taskId: await taskId('BUG-1'), body: { status: 'completed' } }, {});
    await world.until(() => written.length === everybody.length, 7_200_000);
    const closed = everybody.map(({ number }) => `PATCH issues/${number} closed`);
    expect(written.toSorted()).toEqual(closed.toSorted());
  });
});
