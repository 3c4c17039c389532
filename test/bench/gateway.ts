import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startWorkspaceService, type TestService } from '../support/workspace-service.ts';
import { type Bench, RUNS } from './bench.ts';
import { announcedPort, spawnDaemon, stopDaemon } from './daemon.ts';
import { converse, open } from './load.ts';
import { compared } from './report.ts';

/**
 * Reads of one task per second that the gateway of a whole daemon answers from memory, over 20 connections with an API
 * key, against Node's own HTTP server that answers the same bytes and looks at nothing. What the workspace itself was
 * asked is counted: once in `gateway.fresh`.
 */
export const gateway: Bench = {
  figures: ['gateway.hit'],
  async run() {
    const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-'));
    const service = await startWorkspaceService();
    const daemon = spawnDaemon({ folder, url: service.url, apiKey: service.apiKey });
    try {
      const port = await announcedPort(daemon, folder);
      const figures = await measure(port, service);
      await stopDaemon(daemon, folder);
      return figures;
    } finally {
      if (daemon.exitCode === null) daemon.kill('SIGKILL');
      await service.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

const CONNECTIONS = 20;
/** Milliseconds: until the code is compiled, between two rounds, and what is measured. */
const WARM_UP = 2_000;
const SETTLE = 200;
const MEASURED = 1_500;
/** More than the first reads of the daemon and one read every 15 s could be. */
const MOST_ASKED = 20;

async function measure(port: number, service: TestService) {
  const { taskId } = (await service.client().createBug({ body: { title: 'Login fails', labels: ['auth'] } }, {})).body;
  const path = `/api/v1/workspaces/current/tasks/${taskId}`;
  const first = await fetch(`http://127.0.0.1:${port}${path}`, {
    headers: { authorization: `Bearer ${service.apiKey}` },
  });
  const headers = Object.fromEntries([...first.headers].filter(([name]) => !AUTOMATIC.includes(name)));
  const peer = await startPeer({ answer: await first.text(), headers });
  const runs: { ours: number[]; bare: number[] } = { ours: [], bare: [] };
  try {
    for (let round = 0; round < RUNS; round++) {
      for (const [name, at] of [['ours', port] as const, ['bare', peer.port] as const]) {
        await load(at, path, service.apiKey, round === 0 ? WARM_UP : SETTLE);
        runs[name].push(await load(at, path, service.apiKey, MEASURED));
      }
    }
  } finally {
    peer.child.kill('SIGKILL');
  }
  const asked = (await service.service.statistics()).requests.get(service.apiKeyId)?.received ?? 0;
  if (asked > MOST_ASKED) throw new Error(`the workspace was asked ${asked} times`);
  return [compared({ name: 'gateway.hit', unit: 'requests/s', better: 'higher', aim: 0.65 }, runs.ours, runs.bare)];
}

/** Headers that Node's server sets by itself. */
const AUTOMATIC = ['connection', 'content-length', 'date', 'keep-alive'];

async function startPeer(told: object): Promise<{ port: number; child: ChildProcess }> {
  const child = fork(join(import.meta.dirname, 'peers', 'http.ts'));
  child.send(told);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  return { port, child };
}

/** @returns requests per second */
async function load(port: number, path: string, key: string, ms: number): Promise<number> {
  const head =
    `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${key}\r\n` +
    `X-Service-Api-Version: 2\r\nAccept: application/json\r\n\r\n`;
  const request = [Buffer.from(head), Buffer.alloc(0)] as const;
  const sockets = await Promise.all(Array.from({ length: CONNECTIONS }, () => open(port)));
  const begin = performance.now();
  const next = () => (performance.now() - begin >= ms ? undefined : request);
  const counts = await Promise.all(sockets.map((socket) => converse(socket, next)));
  return counts.reduce((sum, count) => sum + count, 0) / ((performance.now() - begin) / 1_000);
}
