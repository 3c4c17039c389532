import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { findDaemon } from '../../src/store/daemon-file.ts';
import { announcedPort, logOf, type Setup, spawnDaemon, stopDaemon } from './daemon.ts';
import { usageOf } from './usage.ts';

/** A daemon of its own process that is ready. */
export interface Running {
  readonly folder: string;
  readonly pid: number;
  readonly port: number;
  /** From its spawning until it was ready: seconds of the wall clock, and of CPU as the kernel counts it. */
  readonly started: { readonly wall: number; readonly cpu: number };
}

/** One whose main thread is watched from inside (`loop-watch.ts`), which takes some hundredths of a core. */
export interface Watched extends Running {
  /** The long ones of those that ended since a time. */
  turnsSince(time: number): readonly Turn[];
}

/** What the main thread did between two turns, as `loop-watch.ts` tells it. */
export interface Turn {
  /** When it ended, epoch milliseconds. */
  readonly at: number;
  /** Milliseconds of that thread's CPU, and of the wall clock. */
  readonly cpu: number;
  readonly wall: number;
  /** How many there were since the long one before, this one too. */
  readonly turns: number;
}

/** The same as `runDaemon`, watched. */
export async function runWatched<Result>(setup: Setup, use: (daemon: Watched) => Promise<Result>): Promise<Result> {
  const file = join(setup.folder, 'loop');
  writeFileSync(file, '');
  const preload = ['--import', join(import.meta.dirname, 'loop-watch.ts')];
  const watched = { ...setup, preload, env: { ...setup.env, LOOP_WATCH: file } };
  return runDaemon(watched, (daemon) => use({ ...daemon, turnsSince: (time) => turnsIn(file, time) }));
}

/** Runs a daemon for as long as it is used. Throws where it does not end in order. */
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

/** @param file of `loop-watch.ts` */
export function turnsIn(file: string, since = 0): Turn[] {
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

/** As the owner of the data folder. Throws where the answer does not tell of all these workspaces. */
export async function ask({ folder }: Pick<Running, 'folder'>, path: string, names: readonly string[]): Promise<void> {
  const { address, token } = ownerOf({ folder });
  const answer = await fetch(address + path, { headers: { authorization: `Bearer ${token}` } });
  const text = await answer.text();
  if (!answer.ok || !names.every((name) => text.includes(`"${name}"`))) throw new Error(`${path}: ${answer.status}`);
}

export function ownerOf({ folder }: Pick<Running, 'folder'>): { readonly address: string; readonly token: string } {
  const owner = findDaemon(join(folder, 'data'));
  if (!owner) throw new Error(logOf(folder));
  return owner;
}
