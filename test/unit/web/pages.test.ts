import { readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runAdminOperation } from '../../../src/admin/admin-operations.ts';
import { type BrowserSession, logIn } from '../../support/harness/browser-session.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../../support/harness/daemon.ts';
import { type Dom, readDom } from '../../support/harness/dom.ts';
import { pullEvent } from '../../support/vendors/github-payloads.ts';

const ADMIN = 'the-token-of-the-admin-nobody-can-guess';
const OTHER = 'the-token-of-another-workspace-nobody-can-guess';

const LIMITED = 'the-token-of-this-workspace-nobody-can-guess';

const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onmouseover='alert(1)",
  '</title></style><svg onload=alert(1)>',
  '\u001b[2J\u009b31m',
  '\u202egnp.exe\u2066',
];

const GITHUB = { connector: 'github', repositories: ['acme/app'], webhookSecrets: WEBHOOK_SECRET, poll: 'off' };
const REDMINE = { connector: 'redmine', url: 'http://127.0.0.1:9', apiKey: 'a-key', projects: ['website'], poll: '5m' };

/** The pull requests are open, so no task is moved. */
const RULES = { workflow: { rules: [{ when: { pullRequest: 'merged' }, set: { status: 'completed' } }] } };

/** Pull requests; of these the guard lets four of strangers pass. */
const PULLS = 9;

let world: World;
let origin: string;
let session: BrowserSession;

beforeAll(async () => {
  world = await createWorld({
    tokens: [
      { secret: ADMIN, role: 'admin', workspaces: null },
      { secret: OTHER, role: 'admin', workspaces: ['other'] },
      { secret: LIMITED, role: 'admin', workspaces: ['test'] },
    ],
    config: { connections: { github: GITHUB, tickets: REDMINE }, guard: { creations: 4 }, rules: RULES },
  });
  origin = world.daemon().adminAddress;
  await world.people.createBug({ body: { title: 'Checkout fails' } }, {});
  const titles = ['Pay by card (BUG-1)', 'Encode as UTF-8 (BUG-77)', 'A plain change', ...HOSTILE];
  const updated = new Date(world.clock.now()).toISOString();
  for (const [index, title] of titles.entries()) {
    const setting = { number: index + 1, title, updated, isOfStranger: index > 0 };
    await world.deliver('pull_request', pullEvent(setting, 'opened'));
  }
  await world.deliver('pull_request', { action: 'opened', number: 'none' }, { id: 'broken-one' });
  await world.until(async () => {
    const { changes, deliveries } = await world.partition().status();
    return deliveries.pending + changes.byState.pending + changes.byState.sending === 0 && deliveries.quarantined === 1;
  });
  session = await logIn(origin, { token: ADMIN });
});
afterAll(() => world.close());

async function html(
  path: string,
  headers: Readonly<Record<string, string>> = { cookie: session.cookie },
): Promise<string> {
  return (await fetch(origin + path, { headers })).text();
}

async function open(path: string): Promise<Dom> {
  return readDom(await html(`/workspaces/test${path}`));
}

async function press(
  action: string,
  fields: Readonly<Record<string, string>>,
  token = session.token,
): Promise<Response> {
  return fetch(`${origin}/workspaces/test/actions/${action}`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin, cookie: session.cookie, 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ page: token, ...fields }),
  });
}

/** Pages of the navigation, and those that lists lead to. */
async function paths(): Promise<string[]> {
  const nav = (await open('')).byId('navigation');
  const links = readDom(await html('/workspaces/test'))
    .all('a')
    .filter(({ attribs }) => attribs['id']?.startsWith('nav-'))
    .map(({ attribs }) => (attribs['href'] as string).replace('/workspaces/test', ''));
  expect(nav).toBeDefined();
  return [
    ...links,
    '/delivery?id=broken-one',
    '/item?name=acme/app%231',
    '/item?name=BUG-1',
    '/problems?preview=creations',
    '/deliveries?preview=replay',
  ];
}

describe('each page', () => {
  it('is whole: one heading and one main part, a way past the navigation, names for all fields, no id twice', async () => {
    for (const path of await paths()) {
      const page = await open(path);
      expect([path, page.all('h1').length, page.all('main').length]).toEqual([path, 1, 1]);
      expect([path, page.classed('skip')[0]?.attribs['href']]).toEqual([path, '#main']);
      const ids = page.all().flatMap(({ attribs }) => attribs['id'] ?? []);
      expect([path, ids.filter((id, at) => ids.indexOf(id) !== at)]).toEqual([path, []]);
      const bare = page
        .all('input')
        .filter(
          ({ attribs, parent }) =>
            attribs['type'] !== 'hidden' && parent && !('name' in parent && parent.name === 'label'),
        );
      expect([path, bare]).toEqual([path, []]);
      expect([
        path,
        page.all('svg').filter(({ attribs }) => !attribs['aria-label'] && !attribs['aria-hidden']),
      ]).toEqual([path, []]);
      expect([path, page.all('table').length]).toEqual([path, page.all('caption').length]);
      expect([path, page.all('th').filter(({ attribs }) => !attribs['scope'])]).toEqual([path, []]);
    }
  });

  it('runs and loads nothing but our own files, and shows what strangers wrote as text', async () => {
    for (const path of await paths()) {
      const body = await html(`/workspaces/test${path}`);
      const page = readDom(body);
      expect([path, page.all('script').map(({ attribs }) => attribs['src'])]).toEqual([
        path,
        [expect.stringMatching(/^\/assets\/[0-9a-f]{12}\/page\.js$/)],
      ]);
      expect([path, page.all('img').length, page.all('style').length]).toEqual([path, 0, 0]);
      const handlers = page
        .all()
        .flatMap(({ attribs }) => Object.keys(attribs).filter((name) => /^on|^style$/.test(name)));
      expect([path, handlers]).toEqual([path, []]);
      expect([path, /(?![\t\n])[\p{Cc}\p{Bidi_Control}]/u.test(body)]).toEqual([path, false]);
    }
    expect((await open('/deliveries')).text()).toContain('<script>alert(1)</script>');
  });

  it('allows nothing inline by its policy, and is kept by nobody [A9]', async () => {
    const { headers } = await fetch(`${origin}/workspaces/test`, { headers: { cookie: session.cookie } });
    expect(headers.get('content-security-policy')).toBe(
      "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    );
    expect(headers.get('cache-control')).toBe('no-store');
  });

  it('has no button that changes something for a program and for who may only read', async () => {
    const bearer = { authorization: `Bearer ${ADMIN}` };
    for (const path of await paths()) {
      const page = readDom(await html(`/workspaces/test${path}`, bearer));
      expect([path, page.all('form').filter(({ attribs }) => attribs['method'] === 'post')]).toEqual([path, []]);
    }
  });
});

describe('problems', () => {
  it('release only after a preview with a count, by a form of our own page', async () => {
    expect((await open('/problems')).byId('release-creations')).toBeUndefined();
    const { creations } = await world.ask('held', { samples: 0 });
    const page = await open('/problems?preview=creations');
    expect(page.text(page.byId('release-creations'))).toBe(`Release ${creations.count} creations`);
    expect((await press('release', { class: 'creations' }, 'another token')).status).toBe(403);
    expect((await world.partition().status()).changes.byState.held).toBe(creations.count);
  });
});

it('what a button asked for can be undone for ten seconds, and is done then', async () => {
  const held = async () => (await world.partition().status()).changes.byState.held;
  const before = await held();
  expect((await press('release', { class: 'creations' })).headers.get('location')).toBe('/workspaces/test/problems');
  const page = await open('/problems');
  expect(page.text(page.byId('postponed'))).toMatch(new RegExp(`^◆ ${before} changes will be released ?Undo`));
  const id = /name="id" type="hidden" value="(\d+)"/.exec(await html('/workspaces/test/problems'))?.[1] ?? '';
  expect((await press('undo', { id })).headers.get('location')).toBe('/workspaces/test/problems?done=undone');
  expect((await press('undo', { id })).headers.get('location')).toBe('/workspaces/test/problems?done=late');
  expect((await open('/problems?done=late')).text()).toContain('Nothing was undone');
  await world.clock.advance(11_000);
  expect(await held()).toBe(before);
  await press('release', { class: 'creations' });
  await world.clock.advance(11_000);
  await world.until(async () => (await held()) === 0);
  const audit = await open('/audit');
  expect(audit.text(audit.byId('audit'))).toMatch(/done ?release ?creations.*session [0-9a-f]{8} \(admin\)/);
});

describe('the configuration', () => {
  it('shows each value with its origin, and no secret', async () => {
    const body = await html('/workspaces/test/configuration');
    expect(readDom(body).text()).toMatch(
      /connections\.github\.webhookSecrets ?"?\*{4}\(\d+, [0-9a-f]{8}\).*test\.yaml:\d+/,
    );
    expect(body).not.toContain(WEBHOOK_SECRET);
    expect(body).toContain('rule 1 of rules.workflow: set.status');
  });

  it('shows the options of the daemon to who may see every workspace', async () => {
    expect(readDom(await html('/workspaces/test/configuration')).byId('daemon')).toBeDefined();
    const limited = await html('/workspaces/test/configuration', { authorization: `Bearer ${LIMITED}` });
    expect(limited).toContain('guard.creations');
    expect(readDom(limited).byId('daemon')).toBeUndefined();
  });
});

describe('the rule lab', () => {
  const tried = (config: string) =>
    fetch(`${origin}/workspaces/test/rules`, {
      method: 'POST',
      headers: { origin, cookie: session.cookie, 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ page: session.token, config }),
    });

  it('tells what another configuration would write, and what is wrong with one', async () => {
    const text = readFileSync(join(world.configFolder, 'test.yaml'), 'utf8');
    const answer = await tried(text);
    expect([answer.status, readDom(await answer.text()).text()]).toEqual([
      200,
      expect.stringMatching(/What it would do|9 items evaluated/),
    ]);
    const links = '\nrules:\n  links: [{ pattern: "UTF-(8)", place: [title], task: "BUG-1" }]\n';
    const linked = readDom(await (await tried(text.replace('\nrules:\n', links))).text());
    const targets = linked.all('a').flatMap(({ attribs }) => attribs['href'] ?? []);
    expect(linked.text()).toContain('Links added');
    expect(targets).toContain('/workspaces/test/item?name=UTF-8');
  });

  it('begins with the file in use and keeps the text, without the secrets of the file', async () => {
    const fieldOf = (page: Dom) =>
      page
        .byId('config')
        ?.children.map((child) => ('data' in child ? child.data : ''))
        .join('');
    const first = fieldOf(await open('/rules'));
    expect(first).toContain('repositories');
    expect(first).not.toContain(WEBHOOK_SECRET);
    const file = join(world.configFolder, 'test.yaml');
    renameSync(file, `${file}.away`);
    const without = await open('/rules');
    renameSync(`${file}.away`, file);
    expect([fieldOf(without), without.text()]).toEqual(['', expect.stringContaining('config_unreadable')]);
    // A browser sends line breaks as CR LF.
    const refused = await tried('connections: 7\r\n');
    expect([refused.status, fieldOf(readDom(await refused.text()))]).toEqual([422, 'connections: 7\r\n']);
  });
});

describe('deliveries', () => {
  it('are found by their vendor’s id, by an item, by state and by connection; own answers only where asked for', async () => {
    const rows = async (search: string) => (await open(`/deliveries?${search}`)).all('tr').length - 1;
    expect(await rows('')).toBe(PULLS + 1);
    expect(await rows('about=broken-one')).toBe(1);
    expect(await rows('about=acme/app%232')).toBe(1);
    expect(await rows('state=quarantined')).toBe(1);
    expect(await rows('own=yes')).toBeGreaterThan(PULLS + 1);
    expect(await rows('state=nonsense')).toBe(PULLS + 1);
    expect((await open('/deliveries?about=acme/none%231')).text()).toContain('This did not work');
  });

  it('tell of one what it said, why it was refused, and what was sent', async () => {
    const broken = (await open('/delivery?id=broken-one')).text();
    expect(broken).toMatch(/quarantined.*It cannot be read.*delivery_malformed/);
    const { deliveries } = await world.ask('deliveries', { about: 'acme/app#1', limit: 5 });
    const page = await open(`/delivery?id=${deliveries[0]?.id}`);
    expect(page.text()).toMatch(/changed ?acme\/app#1 Pay by card/);
    expect(page.text(page.byId('courses'))).toMatch(/answered 201.*record of acme\/app#1/);
  });

  it('are replayed by a button', async () => {
    const answer = await press('replay', { about: 'acme/app#3' });
    expect([answer.status, answer.headers.get('location')]).toEqual([
      303,
      '/workspaces/test/deliveries?done=replayed&count=1',
    ]);
    expect((await open('/deliveries?done=replayed&count=1')).text()).toContain('1 delivery is judged again.');
    await press('replay', { state: 'superseded', connection: 'github' });
    const audit = await open('/audit');
    expect(audit.text(audit.byId('audit'))).toContain('replay github, superseded');
    expect((await open('/deliveries?done=<b>&count=1')).text()).not.toContain('<b>');
  });
});

describe('live updates', () => {
  const eventsOf = async (path: string, headers: Readonly<Record<string, string>> = { cookie: session.cookie }) => {
    const text = await html(`/live/workspaces/test${path}`, headers);
    return [...text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, name, data = '']) => ({
      name,
      data: JSON.parse(data) as unknown,
    }));
  };

  it('carry no form that somebody may be filling, and nothing to who may not see the page', async () => {
    const ids = (await eventsOf('/deliveries')).flatMap(({ name, data }) =>
      name === 'part' ? (data as { id: string }).id : [],
    );
    expect(ids).toContain('list');
    expect(ids).not.toContain('search');
    const { status } = await fetch(`${origin}/live/workspaces/test`, { headers: { authorization: `Bearer ${OTHER}` } });
    expect(status).toBe(403);
  });
});

describe('streams of live updates', () => {
  const leaving = new AbortController();
  afterAll(() => leaving.abort());

  async function begin(headers: Readonly<Record<string, string>>) {
    return fetch(`${origin}/live/workspaces/test/audit`, {
      headers: { ...headers, accept: 'text/event-stream' },
      signal: leaving.signal,
    });
  }

  /** Until the end of the stream. */
  async function heardAfter(answer: Response, act: () => Promise<unknown>): Promise<string> {
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let said = '';
    while (!said.includes('event: at')) said += decoder.decode((await reader.read()).value);
    said = '';
    await act();
    let isOver = false;
    const end = (async () => {
      for (let read = await reader.read(); !read.done; read = await reader.read()) said += decoder.decode(read.value);
      isOver = true;
    })();
    const begun = world.clock.monotonic();
    await world.until(() => isOver);
    await end;
    expect(world.clock.monotonic() - begun).toBeLessThan(30_000);
    return said;
  }

  it('end when their session does, and say nothing more', async () => {
    const { cookie, token } = await logIn(origin, { token: ADMIN });
    const said = await heardAfter(await begin({ cookie }), async () => {
      await runAdminOperation('retry', world.partition(), {}, world.clock, 'command somebody');
      await fetch(`${origin}/logout`, {
        method: 'POST',
        redirect: 'manual',
        headers: { origin, cookie, 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ page: token }),
      });
    });
    expect(said).toBe('');
  });

  it('are few for one credential, however many it asks for, and others still have theirs', async () => {
    const { cookie } = session;
    const many = await Promise.all(Array.from({ length: 20 }, () => begin({ cookie })));
    const refused = many.filter(({ status }) => status === 503);
    expect([many.length - refused.length, refused[0]?.headers.get('retry-after')]).toEqual([12, '10']);
    expect((await begin({ authorization: `Bearer ${LIMITED}` })).status).toBe(200);
  });
});

it('who is limited to another workspace sees nothing of this one', async () => {
  const other = await logIn(origin, { token: OTHER });
  const { status } = await fetch(`${origin}/workspaces/test`, { headers: { cookie: other.cookie } });
  expect(status).toBe(403);
  expect(await html('/', { cookie: other.cookie })).not.toContain('/workspaces/test');
});

it('all pages and files together take less than 100 kB of a network', async () => {
  const files = readDom(await html('/workspaces/test'))
    .all()
    .flatMap(({ attribs }) => [attribs['src'], attribs['href']])
    .filter((each) => each?.startsWith('/assets/')) as string[];
  expect(files.length).toBe(3);
  const pages = (await paths()).map((path) => `/workspaces/test${path}`);
  const sizes = await Promise.all([...files, ...pages].map(async (path) => gzipSync(await html(path)).length));
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(100_000);
});
