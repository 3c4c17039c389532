import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startWorkspaceService, type TestService } from '../support/fakes/workspace-service.ts';
import { type Bench, RUNS } from './bench.ts';
import { announcedPort, spawnDaemon, stopDaemon } from './daemon.ts';
import { repeatRequest, startPeer } from './load.ts';
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
  const peer = await startPeer('http', { answer: await first.text(), headers });
  const runs: { ours: number[]; bare: number[] } = { ours: [], bare: [] };
  try {
    for (let round = 0; round < RUNS; round++) {
      for (const [name, at] of [['ours', port] as const, ['bare', peer.port] as const]) {
        const target = { port: at, key: service.apiKey, connections: CONNECTIONS };
        await repeatRequest(target, { method: 'GET', path }, round === 0 ? WARM_UP : SETTLE);
        runs[name].push((await repeatRequest(target, { method: 'GET', path }, MEASURED)).perSecond);
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
