import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import BetterSqlite from 'better-sqlite3';
import { stringify } from 'yaml';
import manifest from '../../package.json' with { type: 'json' };
import { findDaemon } from '../../src/store/installation/daemon-file.ts';
import { INSTALLATION_FILE } from '../../src/store/installation/installation.ts';
import { expectPremise, inFolder } from './bench.ts';
import { REPOSITORY, SECRET } from './deliveries.ts';

const PROJECT = join(import.meta.dirname, '../..');
/** The command of `npm start`: variables, `node`, its options, the program, and `run`. */
const START = manifest.scripts.start.split(' ');
export const PROGRAM = START.slice(START.indexOf('node') + 1);
export const VARIABLES: Readonly<Record<string, string>> = Object.fromEntries(
  START.slice(0, START.indexOf('node')).map((word) => word.split('=')),
);

export const WORKSPACE = 'bench';
export const WEBHOOK_PATH = `/webhooks/${WORKSPACE}/github`;

/** An address at which no server answers, for benches that send nothing. */
export const NOWHERE = 'http://127.0.0.1:9/api/v1';
const KEY = 'a key for the bench only';

export interface Setup {
  readonly folder: string;
  /** Where the workspace's API is, and the key for it; absent: nobody answers there. */
  readonly url?: string;
  readonly apiKey?: string;
  readonly port?: number;
  /** An address of PostgreSQL, which several share, in place of a file in the folder. */
  readonly store?: string;
  /** A configuration that was written already, in place of the one that every bench has. */
  readonly config?: string;
  /** Options of `node` beside those of `npm start`, and variables. */
  readonly preload?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Keys beside those that every bench has, and what replaces its `workspace`. */
type Configuration = Readonly<Partial<Record<'workspace' | 'rules' | 'retention', object>>>;

const SECRET_KEY = Buffer.alloc(32, 'bench').toString('base64');

export function databaseFile(folder: string): string {
  return join(folder, 'data', INSTALLATION_FILE);
}

/** The one value that a statement tells of the rows of a daemon, which may be running. */
export function lookInto(folder: string, statement: string): number {
  const database = new BetterSqlite(databaseFile(folder), { readonly: true });
  try {
    return database.prepare(statement).pluck().get() as number;
  } finally {
    database.close();
  }
}

export function countDeliveries(folder: string, condition: string): number {
  return lookInto(folder, `select count(*) from inbox where ${condition}`);
}

/** Given up after this time, milliseconds. */
const LONGEST_WAIT = 600_000;

export async function until(isSo: () => boolean | Promise<boolean>, everyMs = 20): Promise<void> {
  const begin = performance.now();
  while (!(await isSo())) {
    expectPremise(performance.now() - begin < LONGEST_WAIT, `what is awaited comes: ${String(isSo)}`);
    await pause(everyMs);
  }
}

/** `npm start` in a process of its own, as in production: nothing is replaced. */
export function spawnDaemon(setup: Setup): ChildProcess {
  const { folder, url = NOWHERE, apiKey = KEY, port = 0, store, preload = [], env } = setup;
  const config = setup.config ?? writeConfiguration(folder, url === NOWHERE ? {} : { workspace: { url, apiKey } });
  mkdirSync(join(folder, 'data'), { recursive: true });
  const log = openSync(join(folder, 'daemon.log'), 'a');
  const options = ['--config', config, '--data', join(folder, 'data'), '--port', String(port)];
  if (store) options.push('--store', store);
  const daemon = spawn(process.execPath, [...preload, ...PROGRAM, ...options], {
    cwd: PROJECT,
    env: { ...process.env, ...VARIABLES, ...(store && { WORKSYNC_SECRET_KEY: SECRET_KEY }), ...env },
    stdio: ['ignore', 'pipe', log],
  });
  closeSync(log);
  return daemon;
}

export async function announcedPort(daemon: ChildProcess, folder: string): Promise<number> {
  let said = '';
  // A reader that stops closes the pipe, and with it the daemon's end of it.
  for await (const text of daemon.stdout?.iterator({ destroyOnReturn: false }) ?? []) {
    said += String(text);
    const port = /Status page: http:\/\/127\.0\.0\.1:(\d+)\//.exec(said)?.[1];
    if (!port) continue;
    daemon.stdout?.resume();
    return Number(port);
  }
  throw new Error(`the daemon ended: ${said} ${logOf(folder)}`);
}

async function stopDaemon(daemon: ChildProcess, folder: string): Promise<void> {
  const ended = once(daemon, 'exit');
  daemon.kill('SIGTERM');
  const [code] = await ended;
  if (code !== 0) throw new Error(`the daemon ended with ${code}: ${logOf(folder)}`);
}

function logOf(folder: string): string {
  return readFileSync(join(folder, 'daemon.log'), 'utf8').slice(-2_000);
}

/** Writes a configuration. Without `workspace` no server answers, and the sweep is off. @returns the written file */
export function writeConfiguration(folder: string, more: Configuration = {}): string {
  const file = join(folder, `${WORKSPACE}.yaml`);
  const workspace = more.workspace ?? { url: NOWHERE, apiKey: KEY, sweep: 'off' };
  writeFileSync(file, stringify({ ...more, workspace, connections: { github: CONNECTION } }));
  return file;
}

export const CONNECTION = { connector: 'github', repositories: [REPOSITORY], webhookSecrets: SECRET, poll: 'off' };

/** Ticks per second in `/proc`, the same on every Linux. */
const TICKS = 100;

/** Seconds of CPU, of all its threads; bytes that it gave to the disk; and bytes in memory now. */
export function usageOf(pid: number) {
  const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
  return {
    cpu: timesOf(pid).own,
    written: Number(/^write_bytes: (\d+)/m.exec(read('io'))?.[1]),
    resident: Number(/VmRSS:\s+(\d+) kB/.exec(read('status'))?.[1]) * 1_024,
  };
}

/** Seconds of CPU of a process, of its children, and of those of them that have ended. */
export function familyCpu(pid: number): number {
  const { own, ended } = timesOf(pid);
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return own + ended + children.reduce((sum, child) => sum + livingCpu(Number(child)), 0);
}

/** Returns 0 if the process has ended since it was listed. Seconds of CPU. */
function livingCpu(pid: number): number {
  try {
    return timesOf(pid).own;
  } catch {
    return 0;
  }
}

function timesOf(pid: number) {
  // Behind the name of the program, which may hold spaces: utime is the 12th from there, then stime, and both of ended children.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  const at = (place: number) => Number(fields[place]) / TICKS;
  return { own: at(11) + at(12), ended: at(13) + at(14) };
}

export interface Running {
  readonly folder: string;
  readonly pid: number;
  readonly port: number;
  /** From its spawning until it was ready: seconds of the wall clock, and of CPU as the kernel counts it. */
  readonly started: { readonly wall: number; readonly cpu: number };
}

/** One whose main thread is watched from inside (`loop-watch.ts`), which takes some hundredths of a core. */
export interface Watched extends Running {
  turnsSince(time: number): readonly Turn[];
}

export interface Turn {
  /** When it ended, epoch milliseconds. */
  readonly at: number;
  /** Milliseconds of that thread's CPU, and of the wall clock. */
  readonly cpu: number;
  readonly wall: number;
  /** How many there were since the long one before, this one too. */
  readonly turns: number;
}

export async function runWatched<Result>(setup: Setup, use: (daemon: Watched) => Promise<Result>): Promise<Result> {
  const file = join(setup.folder, 'loop');
  writeFileSync(file, '');
  const preload = ['--import', join(import.meta.dirname, 'loop-watch.ts')];
  const watched = { ...setup, preload, env: { ...setup.env, LOOP_WATCH: file } };
  return runDaemon(watched, (daemon) => use({ ...daemon, turnsSince: (time) => turnsIn(file, time) }));
}

export function runAlone<Result>(setup: Omit<Setup, 'folder'>, use: (daemon: Running) => Promise<Result>) {
  return inFolder((folder) => runDaemon({ ...setup, folder }, use));
}

export async function runDaemon<Result>(setup: Setup, use: (daemon: Running) => Promise<Result>): Promise<Result> {
  const { folder } = setup;
  const begin = performance.now();
  const daemon = spawnDaemon(setup);
  const pid = daemon.pid as number;
  try {
    const port = await announcedPort(daemon, folder);
    while (!(await fetch(`http://127.0.0.1:${port}/readyz`)).ok) await pause(5);
    const started = { wall: (performance.now() - begin) / 1_000, cpu: usageOf(pid).cpu };
    const result = await use({ folder, pid, port, started });
    await stopDaemon(daemon, folder);
    return result;
  } finally {
    if (daemon.exitCode === null) daemon.kill('SIGKILL');
  }
}

function turnsIn(file: string, since = 0): Turn[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
  return lines.map(readTurn).filter(({ at }) => at >= since);
}

function readTurn(line: string): Turn {
  const [at = 0, cpu = 0, wall = 0, turns = 1] = line.split(' ').map(Number);
  return { at, cpu, wall, turns };
}

/** Milliseconds of CPU of the longest turn. */
export function longestOf(turns: readonly Turn[]): number {
  return Math.max(0, ...turns.map(({ cpu }) => cpu));
}

/** Milliseconds of CPU that this share of all turns does not exceed; of the short ones, which nobody wrote down, 0. */
export function percentileOf(turns: readonly Turn[], share: number): number {
  const all = turns.reduce((sum, each) => sum + each.turns, 0);
  const longest = turns.map(({ cpu }) => cpu).toSorted((left, right) => right - left);
  return longest[Math.floor(all * (1 - share))] ?? 0;
}

/** Times asked, of which the mean is taken: the kernel counts in steps of 10 ms. */
const ASKED = 5;

/** Seconds of CPU that one answer takes. The first one, which compiles, is not counted. */
export async function costOf(daemon: Running, path: string, names: readonly string[]): Promise<number> {
  await ask(daemon, path, names);
  const before = usageOf(daemon.pid).cpu;
  for (let each = 0; each < ASKED; each++) await ask(daemon, path, names);
  return (usageOf(daemon.pid).cpu - before) / ASKED;
}

/** As the owner of the data folder. Throws where the answer does not tell of all these workspaces. @returns the answer */
export async function ask(
  { folder }: Pick<Running, 'folder'>,
  path: string,
  names: readonly string[],
): Promise<string> {
  const { address, token } = ownerOf({ folder });
  const answer = await fetch(address + path, { headers: { authorization: `Bearer ${token}` } });
  const text = await answer.text();
  if (!answer.ok || !names.every((name) => text.includes(`"${name}"`))) throw new Error(`${path}: ${answer.status}`);
  return text;
}

export async function expectNoRequests(daemon: Pick<Running, 'folder'>): Promise<void> {
  const lines = (await ask(daemon, '/metrics', [])).split('\n');
  expectPremise(lines.includes('# TYPE worksync_http_requests_total counter'), 'requests are counted');
  const sent = lines.filter((line) => line.startsWith('worksync_http_requests_total{'));
  expectPremise(sent.length === 0, `a daemon at rest sent requests: ${sent.join(', ')}`);
}

export function ownerOf({ folder }: Pick<Running, 'folder'>): { readonly address: string; readonly token: string } {
  const owner = findDaemon(join(folder, 'data'));
  if (!owner) throw new Error(logOf(folder));
  return owner;
}
