import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { createWorld } from '../support/harness/daemon.ts';
import { listenLocally } from '../support/harness/listen.ts';

const HOUR = 3_600_000;

it('two connections of one grant renew their access token by one request an hour, also over a restart', async () => {
  const renewals: string[] = [];
  const refused: string[] = [];
  const searched = new Set<string>();
  const server = createServer((request, response) => void answer(request, response));
  async function answer(request: IncomingMessage, response: ServerResponse) {
    const body = Buffer.concat(await request.toArray()).toString();
    const path = new URL(request.url ?? '/', 'http://x').pathname;
    if (path === '/oauth/token') {
      renewals.push((JSON.parse(body) as { refresh_token: string }).refresh_token);
      const count = renewals.length + 1;
      return response.end(
        JSON.stringify({ access_token: `access-${count}`, refresh_token: `refresh-${count}`, expires_in: 3_600 }),
      );
    }
    const good = `Bearer access-${renewals.length + 1}`;
    if (request.headers.authorization !== good) {
      refused.push(path);
      return response.writeHead(401).end('{"message":"Unauthorized"}');
    }
    const key = /project\/(\w+)$/.exec(path)?.[1];
    if (key !== undefined) return response.end(JSON.stringify({ id: key === 'ENG' ? '1' : '2', key }));
    searched.add(path);
    return response.end('{"issues":[],"isLast":true}');
  }
  onTestFinished(() => void server.close());
  const apiUrl = await listenLocally(server);
  const connection = (project: string) => ({
    ...{ connector: 'jira', site: 'acme.atlassian.net', cloudId: '11223344-a1b2-4b33-8444-def123456789', apiUrl },
    ...{ projects: [project], poll: '10m' },
    oauth: {
      clientId: 'client',
      clientSecret: 'client-secret',
      refreshToken: 'refresh-1',
      tokenUrl: `${apiUrl}/oauth/token`,
    },
  });
  const connections = { one: connection('ENG'), other: connection('OPS') };
  const world = await createWorld({ config: { connections } });
  onTestFinished(() => world.close());

  const polled = async () => (await world.partition().status()).connections.map(({ lastPollAt }) => lastPollAt ?? 0);
  await world.until(async () => (await polled()).every((at) => at > 0));
  expect(renewals).toEqual(['refresh-1']);
  await world.restart();
  await world.clock.advance(3 * HOUR);
  await world.settled();
  expect(renewals.slice(0, 3)).toEqual(['refresh-1', 'refresh-2', 'refresh-3']);
  expect(new Set(renewals).size).toBe(renewals.length);
  expect(renewals.length).toBeLessThanOrEqual(5);
  expect(refused).toEqual([]);
  const failures = (await world.partition().status()).connections.map(({ failure }) => failure);
  expect(failures).toEqual([null, null]);
});
