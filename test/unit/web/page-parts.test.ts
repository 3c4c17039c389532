import { describe, expect, it } from 'vitest';
import type { ConnectionStatus, ReplicaStatus, SharedStatus } from '../../../src/admin/status/status.ts';
import { WARNINGS } from '../../../src/admin/status/verdict.ts';
import { CODES } from '../../../src/model/errors.ts';
import { createServer } from '../../../src/platform/http/server.ts';
import { troubles } from '../../../src/web/connections/connection-cards.ts';
import { HELP_OF_REASONS, helpOf, helpRoutes } from '../../../src/web/help.ts';
import type { PageContext } from '../../../src/web/pages/page-content.ts';
import { replicasPage } from '../../../src/web/status/installation-pages.ts';
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

const HERE: ReplicaStatus = {
  ...{ id: 'a', address: 'http://a:8080', host: 'a', version: '1.0.0', startedAt: 0, isOwn: true, sameConfig: true },
  holds: [{ workspace: 'acme', since: 60_000 }],
};

function shown(told: SharedStatus, at?: number): Readonly<Record<string, string>> {
  const query = new Map(at === undefined ? [] : [['at', String(at)]]);
  const visit = { query, now: 3_600_000, clean: <Told>(each: Told) => each } as unknown as PageContext;
  return Object.fromEntries(replicasPage(visit, told).parts.map(({ id, body }) => [id, body.text]));
}

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

  it.each(['/help/nothing', '/help/..%2fREADME', '/help/%2e%2e', '/help/constructor'])(
    'serves no other file: %s',
    async (url) => {
      expect((await server.inject(url)).statusCode).toBe(404);
    },
  );
});
