import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { stringify } from 'yaml';
import { type Running, runDaemon, WORKSPACE } from '../bench/daemon.ts';
import { converse, open } from '../bench/load.ts';
import { fastClock } from '../support/fakes/crash-clock.ts';
import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { CONNECTIONS, createDeliveries } from './deliveries.ts';
import { isBusy, type Observed, observe } from './observe.ts';
import { judge, RETENTION } from './verdict.ts';

/**
 * `npm run soak`, with `-- --deliveries 200000` or `-- --minutes 12` for less: a daemon of its own process takes a million
 * deliveries of four vendors over HTTP and writes what they change to a workspace service, while an hour of its time passes in a
 * minute. It is looked at whenever it has taken over what came. Ends with 1 where something grows that should not.
 */
const { values } = parseArgs({
  options: {
    deliveries: { type: 'string', default: '1000000' },
    minutes: { type: 'string', default: 'Infinity' },
  },
});
const wanted = Number(values.deliveries);
const longest = Number(values.minutes) * 60_000;

/** Sent before the daemon is looked at. */
const PORTION = 5_000;
/** Connections at a time, opened anew for each portion. */
const SOCKETS = 8;

const HEAD = ['deliveries', 'hours', 'RSS MB', 'heap MB', 'outside MB', 'handles', 'database MB', 'log MB', 'rows'];

const clock = fastClock();
const folder = mkdtempSync(join(tmpdir(), 'worksync-soak-'));
const service = await startWorkspaceService({ clock });
try {
  const memory = join(folder, 'memory');
  const setup = {
    ...{ folder, url: service.url, apiKey: service.apiKey, config: writeConfiguration(service) },
    preload: ['--expose-gc', '--import', join(import.meta.dirname, 'inside.ts')],
    env: { SOAK_MEMORY: memory },
  };
  const course = await runDaemon(setup, (daemon) => soak(daemon, memory));
  if (readFileSync(join(folder, 'daemon.log'), 'utf8').includes('"fetch failed"'))
    throw new Error('a vendor was asked: there is none');
  const { rows, missed } = judge(course);
  print([HEAD, ...sampleOf(course).map(rowOf)]);
  print(rows);
  process.exitCode = missed.length === 0 ? 0 : 1;
} finally {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
}

async function soak(daemon: Running, memory: string): Promise<readonly Observed[]> {
  const next = await createDeliveries(daemon.port, clock);
  const course: Observed[] = [];
  const [begin, began] = [performance.now(), clock.now()];
  for (let sent = 0; sent < wanted && performance.now() - begin < longest; ) {
    sent += await send(daemon.port, next, Math.min(PORTION, wanted - sent));
    while (isBusy(daemon.folder)) await pause(50);
    const now = clock.now();
    const seen = observe({ ...daemon, memory }, { deliveries: sent, hours: (now - began) / 3_600_000 }, now);
    if (!seen) continue;
    course.push(seen);
    process.stderr.write(`${rowOf(seen).join('  ')}\n`);
  }
  return course;
}

async function send(port: number, next: Awaited<ReturnType<typeof createDeliveries>>, count: number): Promise<number> {
  let left = count;
  const one = () => (left-- > 0 ? next() : undefined);
  const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => open(port)));
  const answered = await Promise.all(sockets.map((socket) => converse(socket, one)));
  return answered.reduce((sum, each) => sum + each, 0);
}

function writeConfiguration({ url, apiKey }: { readonly url: string; readonly apiKey: string }): string {
  const file = join(folder, `${WORKSPACE}.yaml`);
  const retention = { bodies: `${RETENTION.bodies}ms`, deliveries: `${RETENTION.deliveries}ms` };
  const guard = { creations: 'off' };
  writeFileSync(file, stringify({ workspace: { url, apiKey }, retention, guard, connections: CONNECTIONS }));
  return file;
}

function rowOf(seen: Observed): string[] {
  const megabytes = [seen.resident, seen.heap, seen.external].map((bytes) => (bytes / 1e6).toFixed(1));
  const files = [seen.database, seen.log].map((bytes) => (bytes / 1e6).toFixed(1));
  return [
    String(seen.deliveries),
    seen.hours.toFixed(1),
    ...megabytes,
    String(seen.handles),
    ...files,
    String(seen.rows),
  ];
}

function sampleOf(course: readonly Observed[]): readonly Observed[] {
  const every = Math.ceil(course.length / 20);
  return course.filter((_, at) => at % every === 0 || at === course.length - 1);
}

function print(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  for (const row of rows)
    process.stdout.write(`${row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  ')}\n`);
  process.stdout.write('\n');
}
