import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { announcedPort, type Setup, spawnDaemon, stopDaemon } from '../daemon.ts';

/** One of several daemons over one database, each with a folder of its own. */
export interface Replica {
  readonly daemon: ChildProcess;
  readonly folder: string;
  readonly pid: number;
  readonly port: number;
}

/** @param folder of all of them; absent folders are made */
export async function startReplica(setup: Setup, name: string): Promise<Replica> {
  const folder = join(setup.folder, name);
  mkdirSync(folder, { recursive: true });
  const daemon = spawnDaemon({ ...setup, folder });
  try {
    const port = await announcedPort(daemon, folder);
    return { daemon, folder, port, pid: daemon.pid as number };
  } catch (error) {
    daemon.kill('SIGKILL');
    throw error;
  }
}

export async function stopReplicas(replicas: readonly Replica[]): Promise<void> {
  await Promise.all(replicas.map(({ daemon, folder }) => stopDaemon(daemon, folder)));
}

/** As `kill -9`, and waits until it is gone. */
export async function killReplica({ daemon, folder }: Replica): Promise<void> {
  if (daemon.exitCode === null && daemon.signalCode === null) {
    const ended = once(daemon, 'exit');
    daemon.kill('SIGKILL');
    await ended;
  }
  rmSync(folder, { recursive: true, force: true });
}
