import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { afterEach, expect, it } from 'vitest';
import { fullest } from '../bench/quota/references/windows.ts';
import { listenLocally } from '../support/harness/listen.ts';
import { startOwnDaemon } from '../support/harness/own-daemon.ts';
import { worksync } from '../support/harness/processes.ts';
import { useScratch } from '../support/harness/scratch.ts';

/** Command lines as real processes beside a loaded daemon, and every request that reaches the workspace counted. */

const COMMANDS = 20;
/** With the commands and the two first reads fewer than the 40 that the service itself takes within a minute. */
const CHANGES = 14;
const LONG = { cap: 16, seconds: 10 };
const SHORT = { cap: 5, seconds: 2 };

const scratch = useScratch('quota');
let counter: Server | undefined;

afterEach(async () => {
  counter?.closeAllConnections();
  counter?.close();
});

/** Stands before the workspace, and notes in seconds when each request arrives. */
async function countBefore(origin: string, arrivals: number[]): Promise<string> {
  const pass = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = Object.fromEntries(
      ['authorization', 'content-type', 'accept', 'x-service-api-version'].flatMap((name) => {
        const value = request.headers[name];
        return typeof value === 'string' ? [[name, value]] : [];
      }),
    );
    const { method = 'GET', url = '/' } = request;
    const body = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {};
    const answer = await fetch(origin + url, { method, headers, ...body });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'application/json' });
    response.end(Buffer.from(await answer.arrayBuffer()));
  };
  const server = createServer((request, response) => {
    arrivals.push(performance.now() / 1_000);
    pass(request, response).catch(() => response.destroy());
  });
  counter = server;
  return await listenLocally(server);
}

it('twenty command lines beside a loaded daemon all get their answer, and no window holds more than its cap', async () => {
  const arrivals: number[] = [];
  const quota = `{ requests: ${LONG.cap}, window: ${LONG.seconds}s, burst: ${SHORT.cap}, burstWindow: ${SHORT.seconds}s, share: 1 }`;
  const { flags, deliver } = await startOwnDaemon(scratch, `quota: ${quota}`, async (url) => {
    const { origin } = new URL(url);
    return url.replace(origin, await countBefore(origin, arrivals));
  });
  const commands = Array.from({ length: COMMANDS }, () => worksync(['docs', 'list', '--json', ...flags]));
  await deliver(...Array.from({ length: CHANGES }, (_, index) => index + 1));
  const ended = await Promise.all(commands);

  expect(ended.filter(({ code }) => code !== 0)).toEqual([]);
  // The changes that still wait are sent.
  expect(await worksync(['once', '--json', ...flags])).toMatchObject({ code: 0 });
  // Each command and each change is a request of its own; the daemon read both lists before.
  expect(arrivals.length).toBeGreaterThanOrEqual(COMMANDS + CHANGES + 2);
  for (const { cap, seconds } of [LONG, SHORT]) expect(fullest(arrivals, seconds)).toBeLessThanOrEqual(cap);
});
