import { globSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type {
  ConnectionStatus,
  ListedWorkspace,
  ReplicaStatus,
  SharedStatus,
} from '../../../src/admin/status/status.ts';
import { WARNINGS } from '../../../src/admin/status/verdict.ts';
import { CODES } from '../../../src/model/errors.ts';
import { createServer } from '../../../src/platform/http/server.ts';
import { troubles } from '../../../src/web/connections/connection-cards.ts';
import { HELP_OF_REASONS, helpOf, helpRoutes } from '../../../src/web/help.ts';
import { renderMarkdown } from '../../../src/web/markdown.ts';
import type { PageContext } from '../../../src/web/pages/page-content.ts';
import { replicasPage } from '../../../src/web/status/replicas-page.ts';
import { createWorkspaceList } from '../../../src/web/status/workspace-list-page.ts';
import { TOP } from '../../support/harness/processes.ts';
import { CONNECTION as WORKING } from '../../support/harness/web.ts';

const CONNECTION: ConnectionStatus = {
  ...WORKING,
  missingUnits: ['acme/<lost>'],
  ...{ refusedFetches: 2, fetchRefusal: 'not_found: <404>', unverifiedItems: 3 },
  ...{ refusedWrites: 1, writeRefusal: 'forbidden: archived' },
  hooks: {
    at: null,
    silent: [{ subject: 'acme/app', state: 'absent', message: 'nobody made it' }],
    failure: 'forbidden: no scope',
    redeliveryFailure: 'server_failed: status 502',
  },
  names: [
    { name: 'acme/old', id: '1', called: 'acme/new', elsewhere: null },
    { name: 'acme/app', id: '2', called: 'acme/app', elsewhere: '3' },
  ],
};

function wordsOf(connection: ConnectionStatus, cause?: string): string {
  return troubles(connection, cause)
    .map(({ text }) => text.replace(/<[^<>]+>/g, ''))
    .join('; ');
}

it('says of a cause only what belongs to it, and of the connection everything', () => {
  const told = WARNINGS.map(({ code }) => [code, wordsOf(CONNECTION, code)]).filter(([, words]) => words);
  expect(told).toEqual([
    ['names_rebound', 'scope_rebound acme/app leads to 3 now, and led to 2 before'],
    ['webhooks_silent', 'webhook absent at acme/app: nobody made it'],
    ['webhooks_unknown', 'webhooks forbidden: no scope'],
    ['redeliveries_failing', 'webhooks server_failed: status 502'],
    ['units_missing', 'not found acme/&lt;lost&gt;'],
    ['fetches_refused', 'not fetched 2 objects: not_found: &lt;404&gt;'],
    ['writes_refused', 'not written 1 write: forbidden: archived'],
  ]);
  const all = wordsOf(CONNECTION);
  for (const [, words] of told) expect(all).toContain(words);
  expect(all).toContain('acme/old is now called acme/new');
});

it('names the first of many, and how many more there are', () => {
  const many = { ...CONNECTION, missingUnits: Array.from({ length: 1_500 }, (_, at) => `acme/repository-${at}`) };
  const words = wordsOf(many, 'units_missing');
  expect(words).toContain('acme/repository-19; and 1,480 more');
  expect(words).not.toContain('repository-20');
});

const HERE: ReplicaStatus = {
  ...{ id: 'a', address: 'http://a:8080', host: 'a', version: '1.0.0', startedAt: 0, isOwn: true, sameConfig: true },
  holds: [{ workspace: 'acme', since: 60_000 }],
};

function shown(told: SharedStatus, at?: number): Readonly<Record<string, string>> {
  const query = new Map(at === undefined ? [] : [['at', String(at)]]);
  const visit = { query, now: 3_600_000, clean: <Told>(each: Told) => each } as unknown as PageContext;
  return Object.fromEntries(replicasPage(visit, told).parts.map(({ id, body }) => [id, body.text]));
}

it('says who works on what since when, who is silent, and who has another configuration', () => {
  const silent = { ...HERE, id: 'b', host: 'b', isOwn: false, holds: null };
  const other = { ...HERE, id: 'c', host: 'c', isOwn: false, sameConfig: false, holds: [] };
  const { replicas = '', leases = '' } = shown({ replicas: [HERE, silent, other], causes: [] });
  expect(replicas).toContain('a (this one)');
  expect(replicas.match(/silent|other configuration/g)).toEqual(['silent', 'other configuration']);
  expect(leases).toContain('href="/workspaces/acme"');
  expect(leases).toContain('1 min ago');
});

it('tells replicas of one host apart by their addresses', () => {
  const second = { ...HERE, id: 'b', address: 'http://a:8081', isOwn: false, holds: [{ workspace: 'beta', since: 1 }] };
  const { leases = '' } = shown({ replicas: [HERE, second], causes: [] });
  expect(leases).toContain('a, http://a:8080');
  expect(leases).toContain('a, http://a:8081');
});

it('escapes whatever other replicas say of themselves', () => {
  const evil = '<script>"\'&';
  const holds = [{ workspace: evil, since: 1 }];
  const cause = { code: evil, verdict: 'degraded', count: 1, since: null, seenAt: null, command: null } as const;
  const causes = [{ ...cause, message: evil, stops: evil, hint: evil }];
  const parts = shown({ replicas: [{ ...HERE, host: evil, address: evil, version: evil, holds }], causes });
  expect(
    Object.values(parts)
      .join('')
      .match(/&lt;script&gt;/g)?.length,
  ).toBeGreaterThanOrEqual(7);
  expect(Object.values(parts).join('')).not.toMatch(/<script/);
});

it('shows a hundred workspaces at a time', () => {
  const holds = Array.from({ length: 250 }, (_, index) => ({
    workspace: `w-${String(index).padStart(3, '0')}`,
    since: 1,
  }));
  const told = { replicas: [{ ...HERE, holds }], causes: [] };
  expect(shown(told)['leases']?.match(/href="\/workspaces/g)).toHaveLength(100);
  expect(shown(told, 2)['leases']).toContain('201–250 of 250');
  expect(shown(told, 9)['leases']).toContain('201–250 of 250');
});

describe('the list of workspaces', () => {
  const NONE = { waiting: 0, held: 0, quota: null };

  /** Lists that are made when the test says so; the name of the only workspace counts them. */
  function setUp() {
    const lists: PromiseWithResolvers<readonly ListedWorkspace[]>[] = [];
    let now = 0;
    const page = createWorkspaceList(() => {
      const next = Promise.withResolvers<readonly ListedWorkspace[]>();
      lists.push(next);
      return next.promise;
    });
    const visit = {
      ...{ caller: { role: 'read', workspaces: null }, query: new Map<string, string>(), now: 0 },
      clock: { monotonic: () => now },
      process: { components: {}, configFault: null },
      clean: <Told>(told: Told) => told,
    } as unknown as PageContext;
    return {
      lists,
      answer(at: number) {
        lists[at]?.resolve([{ name: `list-${at}`, verdict: 'ok', summary: 'all synced', ...NONE }]);
      },
      pass(milliseconds: number) {
        now += milliseconds;
      },
      async shown() {
        const { parts } = await page(visit);
        return /list-\d/.exec(parts.find(({ id }) => id === 'workspaces')?.body.text ?? '')?.[0];
      },
    };
  }

  it('is made once for all who ask at the same time, and serves them for some seconds', async () => {
    const { lists, answer, pass, shown } = setUp();
    const both = [shown(), shown()];
    answer(0);
    expect(await Promise.all(both)).toEqual(['list-0', 'list-0']);
    pass(2_000);
    expect(await shown()).toBe('list-0');
    expect(lists).toHaveLength(1);
  });

  it('that is older is shown while the next one is made, and not when it is much older', async () => {
    const { lists, answer, pass, shown } = setUp();
    const first = shown();
    answer(0);
    await first;
    pass(5_000);
    expect([await shown(), await shown(), lists.length]).toEqual(['list-0', 'list-0', 2]);
    answer(1);
    await lists[1]?.promise;
    expect(await shown()).toBe('list-1');
    pass(60_000);
    const late = shown();
    answer(2);
    expect(await late).toBe('list-2');
  });

  it('that cannot be made leaves the old one, and is tried again', async () => {
    const { lists, answer, pass, shown } = setUp();
    const first = shown();
    answer(0);
    await first;
    pass(5_000);
    expect(await shown()).toBe('list-0');
    lists[1]?.reject(new Error('the database is busy'));
    await expect(lists[1]?.promise).rejects.toThrow('busy');
    expect(await shown()).toBe('list-0');
    expect(lists).toHaveLength(3);
  });
});

const server = createServer();
helpRoutes(server);

async function page(url: string): Promise<string> {
  const answer = await server.inject(url);
  expect([url, answer.statusCode]).toEqual([url, 200]);
  return answer.body;
}

function idsOf(body: string): string[] {
  return Array.from(body.matchAll(/ id="([^"]*)"/g), ([, id]) => id as string);
}

function linksOf(body: string): string[] {
  const links = Array.from(body.matchAll(/<a [^>]*href="([^"]*)"/g), ([, href]) => href as string);
  // Around each page: to its content, to the pages of the daemon, and to the table of contents.
  return links.filter((href) => !['#main', '/', '/help/'].includes(href));
}

describe('/help/', () => {
  it('has a page for each connector, and each document of the configuration', async () => {
    const bodies = await Promise.all(linksOf(await page('/help/')).map(page));
    const titles = bodies.map((body) => /<title>(\S+) – Help/.exec(body)?.[1]);
    const documents = globSync(['config/**/*.md', 'src/connectors/*/README.md'], { cwd: TOP });
    expect(documents.length).toBeGreaterThan(15);
    expect(documents.filter((file) => !titles.includes(file))).toEqual([]);
  });

  it('has an anchor for each error code, each problem, and the reasons for which a task is not moved', async () => {
    const codes = [...Object.keys(CODES), ...WARNINGS.map(({ code }) => code)];
    const addresses = [...codes.map(helpOf), HELP_OF_REASONS];
    const isThere = async (address: string) => {
      const [url = '', id = ''] = address.split('#');
      return idsOf(await page(url)).includes(id);
    };
    const found = await Promise.all(addresses.map(isThere));
    expect(addresses.filter((_address, index) => !found[index])).toEqual([]);
  });

  it('links to pages that it serves, and to anchors that they have, each anchor once', async () => {
    const addresses = linksOf(await page('/help/'));
    const pages = new Map(await Promise.all(addresses.map(async (url) => [url, await page(url)] as const)));
    const wrong = [...pages].flatMap(([url, body]) => {
      const ids = idsOf(body);
      const twice = ids.filter((id, at) => ids.indexOf(id) !== at);
      const dead = linksOf(body)
        .filter((href) => !href.startsWith('http'))
        .filter((href) => {
          const [path = '', id] = href.split('#');
          const target = pages.get(path === '' ? url : path);
          return target === undefined || (id !== undefined && !idsOf(target).includes(id));
        });
      return [...twice, ...dead].map((what) => `${url}: ${what}`);
    });
    expect(wrong).toEqual([]);
  });

  it('runs nothing and loads nothing', async () => {
    const { headers } = await server.inject('/help/operating');
    expect(headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'self'; script-src 'self'; /);
  });

  it.each(['/help/nothing', '/help/..%2fREADME', '/help/%2e%2e', '/help/constructor'])(
    'serves no other file: %s',
    async (url) => {
      expect((await server.inject(url)).statusCode).toBe(404);
    },
  );
});

describe('Markdown', () => {
  const made = (text: string) =>
    renderMarkdown(text, { linkOf: (href) => (href === 'ok' ? '/ok' : undefined) }).text.trim();

  it.each([
    ['<script>alert(1)</script>', '&lt;script&gt;alert(1)&lt;/script&gt;'],
    ['a <img src=x onerror=y> b', '<p>a &lt;img src=x onerror=y&gt; b</p>'],
    ['`<b>`', '<p><code>&lt;b&gt;</code></p>'],
    ['[words](ok)', '<p><a href="/ok" rel="noreferrer">words</a></p>'],
    ['[words](javascript:alert)', '<p>words</p>'],
    ['![words](https://example.com/x.png)', '<p>words</p>'],
    ['## A `b` & [c](ok)', '<h2 id="a-b--c">A <code>b</code> &amp; <a href="/ok" rel="noreferrer">c</a></h2>'],
  ])('%j', (text, expected) => {
    expect(made(text)).toBe(expected);
  });
});
