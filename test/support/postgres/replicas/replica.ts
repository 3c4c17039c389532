import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type Running, startNode } from '../../harness/processes.ts';

/** One process of `worksync run`, with a data folder and a port of its own. */
export interface Replica {
  readonly name: string;
  readonly address: string;
  readonly running: Running;
  log(): string;
  isAlive(): boolean;
}

interface ReplicaOptions {
  readonly name: string;
  readonly folder: string;
  readonly config: string;
  readonly store: string;
  readonly preload: readonly string[];
  /** Given the process before it listens. */
  readonly onSpawn: (running: Running) => void;
}

/** One key for all replicas of an installation: 32 bytes. */
const KEY = Buffer.alloc(32, 7).toString('base64');

export async function startReplica(options: ReplicaOptions): Promise<Replica> {
  const { name, config, store, preload } = options;
  const data = join(options.folder, name);
  mkdirSync(data, { recursive: true });
  const flags = ['--config', config, '--data', data, '--store', store, '--port', '0', '--log-level', 'info'];
  const before = preload.flatMap((module) => ['--import', join(import.meta.dirname, module)]);
  const running = startNode([...before, 'src/main.ts', 'run', ...flags], { env: { WORKSYNC_SECRET_KEY: KEY } });
  options.onSpawn(running);
  let said = '';
  for (const stream of [running.child.stdout, running.child.stderr])
    stream?.on('data', (text: string) => void (said += text));
  const isAlive = () => running.child.exitCode === null && running.child.signalCode === null;
  const port = () => /http:\/\/127\.0\.0\.1:(\d+)\//.exec(said)?.[1];
  await until(
    () => `${name} listens\n${said}`,
    () => {
      if (!isAlive()) throw new Error(`${name} ended: ${said}`);
      return port() !== undefined;
    },
  );
  return { name, running, address: `http://127.0.0.1:${port()}`, log: () => said, isAlive };
}

const LOOK_EVERY = 20;

/** Less than a test may take, milliseconds: who waits in vain is to say what for. */
const LIMIT = 240_000;

/** Looks until it holds. Throws what is missing after so many milliseconds. */
export async function until(what: string | (() => string), holds: () => boolean | Promise<boolean>): Promise<void> {
  const began = performance.now();
  while (!(await holds())) {
    const took = performance.now() - began;
    if (took > LIMIT) throw new Error(`not within ${LIMIT / 1_000} s: ${typeof what === 'string' ? what : what()}`);
    await pause(LOOK_EVERY);
  }
}
