import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { connectors } from '../../src/connectors/registry.ts';
import { createHttpClient } from '../../src/platform/http/http-client.ts';
import { systemClock } from '../../src/platform/lib/clock.ts';
import { sha256Of } from '../../src/platform/lib/digest.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import { packBody, packBodyAsync } from '../../src/store/deliveries/inbox.ts';
import { createConverter, parseInWorker, readLargeBy } from '../../src/sync/worker/converter.ts';
import { createSend, createWorkspaceClient } from '../../src/workspace-api/typed-client.ts';
import { type Bench, figure } from './bench.ts';
import { REPOSITORY } from './deliveries.ts';

/**
 * `answers.block`: the longest CPU time of the main thread between two turns while a page of 25 MB comes from a vendor and is
 * made ready for the inbox: 100 pull requests, each with the longest description that GitHub takes. So while the workspace
 * answers the list of its tasks, as long, up to what is stored of it.
 */
export const answers: Bench = {
  figures: ['answers.block'],
  run: async () => {
    const vendor = new Worker(new URL('./answers-vendor.ts', import.meta.url));
    const [port] = (await once(vendor, 'message')) as [number];
    const converter = createConverter();
    const http = createHttpClient();
    try {
      const longest: number[] = [];
      for (let round = 0; round < 5; round++) {
        const ofVendor = await longestTurn(() => readPage(port, http, converter));
        longest.push(Math.max(ofVendor, await longestTurn(() => readTasks(port, http, converter))));
      }
      const note = 'CPU of the main thread';
      return [figure({ name: 'answers.block', unit: 'ms', aim: 50, note }, longest)];
    } finally {
      await converter.close();
      await http.close();
      await vendor.terminate();
    }
  },
};

type HttpClient = ReturnType<typeof createHttpClient>;
type Converter = ReturnType<typeof createConverter>;

/** As a poll does it, up to the transaction. */
async function readPage(port: number, http: HttpClient, converter: Converter): Promise<void> {
  const github = connectors.find(({ id }) => id === 'github');
  const given = { repositories: [REPOSITORY], apiUrl: `http://127.0.0.1:${port}`, token: 'bench' };
  const options = github?.options.parse(given);
  const deps = { http: parseInWorker(http, converter), clock: systemClock(), logger: silentLogger };
  const position = { unit: REPOSITORY, watermark: '2026-01-01T00:00:00Z', startedAt: '2026-01-02T00:00:00Z' };
  const page = await github?.connect(options, deps).poll(position, new AbortController().signal);
  if (page?.outcome !== 'page' || page.body.length < 24_000_000) throw new Error('the page did not come whole');
  await sha256Of(page.body);
  await packBodyAsync(page.body);
}

/** As the outbox does it, up to the transaction. */
async function readTasks(port: number, http: HttpClient, converter: Converter): Promise<void> {
  const send = createSend({ http, baseUrl: `http://127.0.0.1:${port}/api/v1`, apiKey: () => 'bench' });
  const client = createWorkspaceClient({ send, workspaceId: 'current', readLarge: readLargeBy(converter) });
  const { body } = await client.listTasks({ query: { all: true } }, {});
  if (body.tasks.length !== 120) throw new Error('the list did not come whole');
  packBody(Buffer.from(JSON.stringify(body)));
}

/** Milliseconds of CPU. */
async function longestTurn(work: () => Promise<void>): Promise<number> {
  let longest = 0;
  let isOver = false;
  let before = process.threadCpuUsage();
  const turn = () => {
    const { user, system } = process.threadCpuUsage(before);
    longest = Math.max(longest, (user + system) / 1_000);
    before = process.threadCpuUsage();
    if (!isOver) setImmediate(turn);
  };
  turn();
  await work();
  await pause(20);
  isOver = true;
  return longest;
}
