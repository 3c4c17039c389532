import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startWorkspaceService, type TestService } from '../support/fakes/workspace-service.ts';
import { type Bench, RUNS } from './bench.ts';
import { announcedPort, countDeliveries, spawnDaemon, stopDaemon, WEBHOOK_PATH } from './daemon.ts';
import { pullRequestBodies, type SignedBody } from './deliveries.ts';
import { sendDeliveries } from './load.ts';
import { compared, figure, median } from './report.ts';

/**
 * Durable signed deliveries of 21 KiB per second, against two peers that store nothing.
 *
 * Ours is the whole daemon as in production: `npm start` with its database on a real disk, each 202 after a commit
 * with `synchronous=FULL`, reconcile and outbox running, a workspace service with the specified quota in the process
 * of the load. What is measured is a burst, as after an outage of the provider: while deliveries come faster than the
 * disk writes, reconcile stands back for some seconds (see `LONGEST_LAG` there); the time it then takes to catch up is
 * in the note. The rows of the inbox are counted against the answers, and each must have reached its end.
 */
export const ingest: Bench = {
  figures: ['ingest.octokit', 'ingest.probot'],
  async run() {
    const bodies = pullRequestBodies(256);
    const runs: Record<Contender, number[]> = { worksync: [], octokit: [], probot: [] };
    const takeOver: number[] = [];
    const service = await startWorkspaceService();
    try {
      for (let round = 0; round < RUNS; round++) {
        const ours = await measureDaemon(bodies, service);
        runs.worksync.push(ours.perSecond);
        takeOver.push(ours.takenOverPerSecond);
        for (const peer of ['octokit', 'probot'] as const) runs[peer].push(await measurePeer(peer, bodies));
      }
    } finally {
      await service.close();
    }
    const unit = 'deliveries/s';
    const note = `after the burst reconcile takes over ${Math.round(median(takeOver))} deliveries/s`;
    const peer = { unit, better: 'higher', aim: false } as const;
    return [
      compared({ name: 'ingest.octokit', unit, better: 'higher', aim: 0.9, note }, runs.worksync, runs.octokit),
      compared({ name: 'ingest.probot', unit, better: 'higher', aim: 1.2 }, runs.worksync, runs.probot),
      figure({ ...peer, name: 'ingest.octokit.peer', note: '@octokit/webhooks, no storage' }, runs.octokit),
      figure({ ...peer, name: 'ingest.probot.peer', note: 'probot, no storage' }, runs.probot),
    ];
  },
};

type Contender = 'worksync' | 'octokit' | 'probot';

/** Milliseconds: until the code is compiled, and what is measured. */
const WARM_UP = 1_500;
const MEASURED = 2_500;

async function measurePeer(peer: 'octokit' | 'probot', bodies: readonly SignedBody[]): Promise<number> {
  const child = fork(join(import.meta.dirname, 'peers', `${peer}.ts`));
  try {
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    const target = { port, path: '/webhooks' };
    await sendDeliveries(target, bodies, 'warm', WARM_UP);
    return (await sendDeliveries(target, bodies, 'timed', MEASURED)).perSecond;
  } finally {
    await end(child);
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

async function measureDaemon(bodies: readonly SignedBody[], { url, apiKey }: TestService) {
  const folder = mkdtempSync(join(tmpdir(), 'worksync-bench-'));
  const daemon = spawnDaemon({ folder, url, apiKey });
  try {
    const target = { port: await announcedPort(daemon, folder), path: WEBHOOK_PATH };
    const warm = await sendDeliveries(target, bodies, 'warm', WARM_UP);
    await takenOver(folder);
    const timed = await sendDeliveries(target, bodies, 'timed', MEASURED);
    const { waited, left } = await takenOver(folder);
    expectAllStored(folder, warm.accepted + timed.accepted);
    await stopDaemon(daemon, folder);
    return { perSecond: timed.perSecond, takenOverPerSecond: left / waited };
  } finally {
    await end(daemon);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Waits until reconcile has taken all deliveries over; tells how many were left, and how many seconds that took. */
async function takenOver(folder: string): Promise<{ left: number; waited: number }> {
  const begin = performance.now();
  const left = countDeliveries(folder, "state = 'pending'");
  while (countDeliveries(folder, "state = 'pending'") > 0) await pause(20);
  return { left, waited: (performance.now() - begin) / 1_000 };
}

function expectAllStored(folder: string, acknowledged: number): void {
  const stored = countDeliveries(folder, "connection = 'github'");
  const applied = countDeliveries(folder, "connection = 'github' and state = 'applied'");
  if (stored !== acknowledged || applied !== acknowledged)
    throw new Error(`${acknowledged} acknowledged, ${stored} stored, ${applied} applied`);
}
