import { spawn } from 'node:child_process';
import { roomOf } from './places.ts';

/** How a mistake may be found. */
export const WAYS = ['sim', 'unit', 'whole'] as const;
export type Way = (typeof WAYS)[number];

/** Tests of whole daemons and laws, by the room that they are about. */
const WHOLE: Readonly<Record<string, readonly string[]>> = {
  'sync/quota': ['laws/quota', 'scenarios/quota', 'scenarios/trouble'],
  store: ['laws/convergence', 'laws/statements-by-batch', 'scenarios/trouble', 'scenarios/kill', 'scenarios/changes'],
  'sync/outbox': ['scenarios/changes', 'scenarios/order', 'scenarios/trouble', 'scenarios/echo', 'scenarios/kill'],
  'sync/reconcile': [
    'laws/convergence',
    'laws/statements-by-batch',
    'laws/workspace-sweep',
    'laws/triage',
    'scenarios/mirroring',
    'scenarios/by-hand',
  ],
  'sync/intake': ['scenarios/intake', 'faults/intake', 'scenarios/sweep', 'scenarios/trouble', 'laws/scope-names'],
  cluster: ['laws/lease', 'scenarios/leases', 'scenarios/replicas'],
};

/** Seconds of CPU of one process: whoever takes them hangs. They are a multiple of what it takes without a mistake. */
const MOST_CPU = { unit: 60, whole: 200 };
/** The same of a run of the simulation, which takes two, or eight with replicas. */
const MOST_OF_RUN = { alone: 12, replicas: 30 };
/** Most mistakes, and most of those that hang, show in the first runs. */
const FIRST_RUNS = 3;
/** At most, of one number of replicas. */
const KNOWN_DAYS = 3;
/** Who waits for ever uses no CPU, milliseconds. */
const PATIENCE = 900_000;
/** Of one test, milliseconds. */
const PATIENCE_OF_TEST = 60_000;

interface Trial {
  /** The project. */
  readonly folder: string;
  readonly file: string;
  /** Of the simulation. */
  readonly runs: number;
}

/** @returns what told of the mistake; undefined: nothing */
export async function tryOut(way: Way, trial: Trial): Promise<string | undefined> {
  if (way !== 'sim') return toldBy(await run(testsOf(way, trial), trial.folder, MOST_CPU[way]), /FAIL .*|Error: .*/);
  const early = Math.min(FIRST_RUNS, trial.runs);
  const drawn = (seed: number, runs: number) => simulate(trial, ['--seed', String(seed), '--varied'], runs);
  return (
    (await drawn(1, early)) ??
    (trial.runs > early ? await drawn(1_001, trial.runs - early) : undefined) ??
    // What they know is last, so that it is told of how many only that tells.
    simulate(trial, ['--known'], KNOWN_DAYS)
  );
}

async function simulate({ file, folder }: Trial, which: readonly string[], runs: number): Promise<string | undefined> {
  // Replicas make a run four times as long: they are for leases, which nothing else takes.
  const isOfReplicas = roomOf(file) === 'cluster' || file.endsWith('store/installation.ts');
  const [replicas, count, most] = isOfReplicas
    ? [3, Math.ceil(runs / 2), MOST_OF_RUN.replicas]
    : [1, runs, MOST_OF_RUN.alone];
  const plans = [...which, '--replicas', String(replicas), '--runs', String(count)];
  const ended = await run(['test/sim/main.ts', ...plans, '--no-shrink', '--first'], folder, most * count);
  return toldBy(ended, /^ {2}(?!of what|\{)(.*)|Error: .*/m);
}

function toldBy({ code, signal, said }: Ended, line: RegExp): string | undefined {
  if (code === 0) return undefined;
  if (signal) return 'it hangs';
  return line.exec(said)?.[0].trim().slice(0, 160) ?? 'it ends';
}

function testsOf(way: 'unit' | 'whole', { file }: Trial): readonly string[] {
  const room = roomOf(file);
  // Files about leases lie in two rooms, and so do their tests.
  const own = file.replace(/^src\/(.*)\.ts$/, 'test/unit/$1.test.ts');
  const files = way === 'unit' ? [`test/unit/${room}/`, own] : (WHOLE[room] ?? []).map((name) => `test/${name}`);
  return [
    ...['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/vitest.config.ts', '--bail', '1'],
    ...['--project', way === 'unit' ? 'fast' : 'whole', '--maxWorkers', '1', '--reporter', 'default'],
    ...['--testTimeout', String(PATIENCE_OF_TEST), '--hookTimeout', String(PATIENCE_OF_TEST), ...files],
  ];
}

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly said: string;
}

function run(args: readonly string[], cwd: string, cpu: number): Promise<Ended> {
  const command = ['-c', `ulimit -t ${cpu}; exec "$@"`, 'sh', process.execPath, ...args];
  return new Promise((resolve) => {
    const env = { ...process.env, NO_COLOR: '1' };
    const child = spawn('/bin/sh', command, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let said = '';
    const hear = (text: Buffer) => {
      said += text.toString();
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    // With the processes that it started.
    const timer = setTimeout(() => process.kill(-(child.pid as number), 'SIGKILL'), PATIENCE);
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, said });
    });
  });
}
