import type { ChildProcess } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { findOwner } from '../../../src/daemon/data-folder.ts';
import type { Bench } from '../bench.ts';
import { announcedPort, logOf, spawnDaemon, stopDaemon } from '../daemon.ts';
import { figure } from '../report.ts';
import { usageOf } from './process.ts';
import { createFleet, type Fleet, NOWHERE } from './workspaces.ts';

const WORKSPACES = 2_000;
const ROUNDS = 3;
/** How long it is at rest, milliseconds. */
const REST = 60_000;
/** After the start, until what the start left to do is done, milliseconds. */
const SETTLING = 10_000;

/**
 * What 2 000 workspaces cost that have nothing to do: to start, to hold, to leave alone, and to ask for. CPU of the whole
 * process as the kernel counts it, so that a busy machine does not count; it has run once before, as after an update.
 */
export const manyAtRest: Bench = {
  figures: [
    ...['many.start', 'many.memory', 'many.idle.cpu', 'many.idle.written'],
    ...['many.scrape.metrics', 'many.scrape.status', 'many.scrape.loop'],
  ],
  async run() {
    const [one, all] = [await createFleet(1), await createFleet(WORKSPACES)];
    try {
      for (const fleet of [one, all]) await runDaemon(fleet, async () => undefined);
      const alone = await runDaemon(one, async (_, daemon) => usageOf(daemon.pid as number).resident);
      const rounds: Awaited<ReturnType<typeof measure>>[] = [];
      for (let round = 0; round < ROUNDS; round++) rounds.push(await runDaemon(all, measure));
      const values = (read: (each: (typeof rounds)[number]) => number) => rounds.map(read);
      const lower = { better: 'lower' } as const;
      return [
        figure(
          { ...lower, name: 'many.start', unit: 's CPU', aim: 10 },
          values(({ start }) => start),
        ),
        figure(
          { ...lower, name: 'many.memory', unit: 'MB each', aim: 0.25 },
          values(({ resident }) => (resident - alone) / (WORKSPACES - 1) / 1e6),
        ),
        figure(
          { ...lower, name: 'many.idle.cpu', unit: '% of a core', aim: 1 },
          values(({ idle }) => idle),
        ),
        figure(
          { ...lower, name: 'many.idle.written', unit: 'kB/s', aim: 10 },
          values(({ written }) => written),
        ),
        figure(
          { ...lower, name: 'many.scrape.metrics', unit: 's CPU', aim: 0.3 },
          values(({ metrics }) => metrics),
        ),
        figure(
          { ...lower, name: 'many.scrape.status', unit: 's CPU', aim: 0.3 },
          values(({ status }) => status),
        ),
        figure(
          { ...lower, name: 'many.scrape.loop', unit: 'ms', aim: 50 },
          values(({ loop }) => loop),
        ),
      ];
    } finally {
      for (const { folder } of [one, all]) rmSync(folder, { recursive: true, force: true });
    }
  },
};

/** Runs a daemon on it, with the loop watched; `use` begins when it has come to rest. */
async function runDaemon<Result>(
  fleet: Fleet,
  use: (started: number, daemon: ChildProcess, fleet: Fleet) => Promise<Result>,
): Promise<Result> {
  const { folder, config } = fleet;
  writeFileSync(watchFile(fleet), '');
  const preload = ['--import', join(import.meta.dirname, '../loop-watch.ts')];
  const env = { LOOP_WATCH: watchFile(fleet) };
  const daemon = spawnDaemon({ folder, config, url: NOWHERE, apiKey: '', preload, env });
  try {
    const port = await announcedPort(daemon, folder);
    while (!(await fetch(`http://127.0.0.1:${port}/readyz`)).ok) await pause(20);
    const { cpu } = usageOf(daemon.pid as number);
    await pause(SETTLING);
    const result = await use(cpu, daemon, fleet);
    await stopDaemon(daemon, folder);
    return result;
  } finally {
    if (daemon.exitCode === null) daemon.kill('SIGKILL');
  }
}

function watchFile({ folder }: Fleet): string {
  return join(folder, 'loop');
}

async function measure(start: number, daemon: ChildProcess, fleet: Fleet) {
  const pid = daemon.pid as number;
  const before = usageOf(pid);
  await pause(REST);
  const after = usageOf(pid);
  const begin = Date.now();
  const metrics = await cost(pid, fleet, '/metrics');
  const status = await cost(pid, fleet, '/status.json');
  return {
    ...{ start, resident: before.resident, metrics, status },
    idle: ((after.cpu - before.cpu) / (REST / 1_000)) * 100,
    written: (after.written - before.written) / (REST / 1_000) / 1e3,
    loop: longestTurn(fleet, begin),
  };
}

/** Times asked, of which the mean is taken: the kernel counts in steps of 10 ms. */
const ASKED = 5;

/** Seconds of CPU that one answer takes. The first one, which compiles, is not counted. */
async function cost(pid: number, fleet: Fleet, path: string): Promise<number> {
  await ask(fleet, path);
  const before = usageOf(pid).cpu;
  for (let each = 0; each < ASKED; each++) await ask(fleet, path);
  return (usageOf(pid).cpu - before) / ASKED;
}

async function ask({ folder, names }: Fleet, path: string): Promise<void> {
  const owner = findOwner(join(folder, 'data'));
  if (!owner) throw new Error(logOf(folder));
  const answer = await fetch(`${owner.address}${path}`, { headers: { authorization: `Bearer ${owner.token}` } });
  const text = await answer.text();
  if (!answer.ok || !names.every((name) => text.includes(`"${name}"`))) throw new Error(`${path}: ${answer.status}`);
}

/** Milliseconds of CPU that the main thread worked between two turns, at most. */
function longestTurn(fleet: Fleet, since: number): number {
  const lines = readFileSync(watchFile(fleet), 'utf8').trim().split('\n');
  const turns = lines.map((line) => line.split(' ').map(Number) as [number, number]);
  return Math.max(0, ...turns.filter(([at]) => at >= since).map(([, milliseconds]) => milliseconds));
}
