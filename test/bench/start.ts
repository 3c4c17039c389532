import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import BetterSqlite from 'better-sqlite3';
import { freePort } from '../support/harness/listen.ts';
import { type Bench, RUNS } from './bench.ts';
import { announcedPort, logOf, spawnDaemon, stopDaemon } from './daemon.ts';
import { figure } from './report.ts';

/**
 * Seconds from spawning what `npm start` runs on 100 000 items and their deliveries to the first 200 of `/readyz`, and the
 * resident memory of that process after a second of rest.
 */
export const start: Bench = {
  figures: ['start', 'memory'],
  async run({ knownItems }) {
    const { folder, file } = await knownItems();
    await settle(folder, file);
    const seconds: number[] = [];
    const megabytes: number[] = [];
    for (let round = 0; round < RUNS; round++) {
      const measured = await measure(folder);
      seconds.push(measured.seconds);
      megabytes.push(measured.megabytes);
    }
    return [
      figure({ name: 'start', unit: 's', better: 'lower', aim: 1 }, seconds),
      figure({ name: 'memory', unit: 'MB', better: 'lower', aim: 150 }, megabytes),
    ];
  },
};

/** Given up after this time, milliseconds. */
const LONGEST_START = 30_000;

/** A daemon has run on these data before: it has held its rules against all items that are open. */
async function settle(folder: string, file: string): Promise<void> {
  const daemon = spawnDaemon({ folder, url: 'http://127.0.0.1:9/api/v1', apiKey: 'a key for the bench only' });
  await announcedPort(daemon, folder);
  const database = new BetterSqlite(file, { readonly: true });
  const looked = database.prepare("select 1 from meta where name = 'rules.looked_by'");
  while (looked.get() === undefined) await pause(50);
  database.close();
  await stopDaemon(daemon, folder);
}

async function measure(folder: string): Promise<{ seconds: number; megabytes: number }> {
  const port = await freePort();
  const begin = performance.now();
  const daemon = spawnDaemon({ folder, port, url: 'http://127.0.0.1:9/api/v1', apiKey: 'a key for the bench only' });
  try {
    while (!(await isReady(port))) {
      if (daemon.exitCode !== null || performance.now() - begin > LONGEST_START) throw new Error(logOf(folder));
      await pause(2);
    }
    const seconds = (performance.now() - begin) / 1_000;
    await pause(1_000);
    const megabytes = residentBytes(daemon.pid as number) / 1e6;
    await stopDaemon(daemon, folder);
    return { seconds, megabytes };
  } finally {
    if (daemon.exitCode === null) daemon.kill('SIGKILL');
  }
}

export function isReady(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    get({ host: '127.0.0.1', port, path: '/readyz', agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    }).once('error', () => resolve(false));
  });
}

/** VmRSS of a process, as the kernel counts it. */
function residentBytes(pid: number): number {
  const kibibytes = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kibibytes) * 1_024;
}
