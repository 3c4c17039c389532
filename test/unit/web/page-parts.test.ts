import { describe, expect, it } from 'vitest';
import type { ReplicaStatus, SharedStatus } from '../../../src/admin/status/status.ts';
import { WARNINGS } from '../../../src/admin/status/verdict.ts';
import { CODES } from '../../../src/model/errors.ts';
import { createServer } from '../../../src/platform/http/server.ts';
import { HELP_OF_REASONS, helpOf, helpRoutes } from '../../../src/web/help.ts';
import type { PageContext } from '../../../src/web/pages/page-content.ts';
import { replicasPage } from '../../../src/web/status/installation-pages.ts';

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

  it.each(['/help/nothing', '/help/..%2fREADME', '/help/%2e%2e', '/help/constructor'])(
    'serves no other file: %s',
    async (url) => {
      expect((await server.inject(url)).statusCode).toBe(404);
    },
  );
});
