import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { stringify } from 'yaml';
import manifest from '../../package.json' with { type: 'json' };
import { INSTALLATION_FILE } from '../../src/store/installation.ts';
import { REPOSITORY, SECRET } from './deliveries.ts';

const PROJECT = join(import.meta.dirname, '../..');
/** What `npm start` runs: variables, `node`, its options, the program, and `run`. */
const START = manifest.scripts.start.split(' ');
export const PROGRAM = START.slice(START.indexOf('node') + 1);
export const VARIABLES: Readonly<Record<string, string>> = Object.fromEntries(
  START.slice(0, START.indexOf('node')).map((word) => word.split('=')),
);

/** Name of the workspace of every bench. */
export const WORKSPACE = 'bench';
export const WEBHOOK_PATH = `/webhooks/${WORKSPACE}/github`;

/** What a daemon is started with. */
export interface Setup {
  /** A folder of its own, for its configuration and its data. */
  readonly folder: string;
  /** Where the workspace's API is, and the key for it. */
  readonly url: string;
  readonly apiKey: string;
  readonly port?: number;
  /** An address of PostgreSQL, which several share, in place of a file in the folder. */
  readonly store?: string;
  /** A configuration that was written already, in place of the one that every bench has. */
  readonly config?: string;
  /** Options of `node` beside those of `npm start`, and variables. */
  readonly preload?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

interface Configuration {
  readonly workspace?: object;
  readonly rules?: object;
  readonly retention?: object;
}

/** The same for all that share a database. */
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

/** Deliveries of which this is true. */
export function countDeliveries(folder: string, condition: string): number {
  return lookInto(folder, `select count(*) from inbox where ${condition}`);
}

/** `npm start` in a process of its own, as in production: nothing is replaced. */
export function spawnDaemon({
  folder,
  url,
  apiKey,
  port = 0,
  store,
  preload = [],
  env,
  ...given
}: Setup): ChildProcess {
  const config = given.config ?? writeConfiguration(folder, url, apiKey);
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

/** The port that the daemon says it listens on. */
export async function announcedPort(daemon: ChildProcess, folder: string): Promise<number> {
  let said = '';
  // Whoever stopped reading would close the pipe, and with it the daemon's end of it.
  for await (const text of daemon.stdout?.iterator({ destroyOnReturn: false }) ?? []) {
    said += String(text);
    const port = /Status page: http:\/\/127\.0\.0\.1:(\d+)\//.exec(said)?.[1];
    if (!port) continue;
    daemon.stdout?.resume();
    return Number(port);
  }
  throw new Error(`the daemon ended: ${said} ${logOf(folder)}`);
}

/** An orderly end. Throws where it is none. */
export async function stopDaemon(daemon: ChildProcess, folder: string): Promise<void> {
  const ended = once(daemon, 'exit');
  daemon.kill('SIGTERM');
  const [code] = await ended;
  if (code !== 0) throw new Error(`the daemon ended with ${code}: ${logOf(folder)}`);
}

export function logOf(folder: string): string {
  return readFileSync(join(folder, 'daemon.log'), 'utf8').slice(-2_000);
}

/**
 * @param more keys beside those that every bench has; those of `workspace` are put among its own
 * @returns the file written
 */
export function writeConfiguration(folder: string, url: string, apiKey: string, more: Configuration = {}): string {
  const file = join(folder, `${WORKSPACE}.yaml`);
  const github = { connector: 'github', repositories: [REPOSITORY], webhookSecrets: SECRET, poll: 'off' };
  writeFileSync(file, stringify({ ...more, workspace: { url, apiKey, ...more.workspace }, connections: { github } }));
  return file;
}
