import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import { callbackify } from 'node:util';
import pg from 'pg';
import { fileReads } from '../lib/file-reads.ts';
import type { FileFault, Files } from '../lib/regular-files.ts';
import { DatabaseFault } from './database-fault.ts';
import type { PostgresAddress } from './postgres-address.ts';

/** The files that an address names, by the option of `node:tls` that takes their contents. */
const TLS_FILES = { cert: 'sslcert', key: 'sslkey', ca: 'sslrootcert' } as const;
type FileOption = keyof typeof TLS_FILES;

export interface Tls {
  readonly paths: ReadonlyMap<FileOption, string>;
  /** Without the contents of the files until they were read. */
  readonly options: ConnectionOptions;
}

const MAX_FILE_BYTES = 1_048_576;
const UNREADABLE = 'In the address, name a regular file of at most 1 MiB that the user of worksync may read.';
/** How long a connection waits for files that were read before, milliseconds. */
const REFRESH_TIMEOUT = 500;

/**
 * Moves TLS out of the query of an address that names files, because `pg` would read these for each connection, and a file system that
 * does not answer would block the process. Other addresses are left to `pg`.
 */
export function takeTls(query: URLSearchParams): Tls | undefined {
  const paths = new Map<FileOption, string>();
  for (const [option, name] of Object.entries(TLS_FILES)) {
    const path = query.get(name);
    if (path) paths.set(option as FileOption, path);
    query.delete(name);
  }
  const mode = query.get('sslmode') ?? 'verify-full';
  if (paths.size === 0 || mode === 'disable') return undefined;
  const options = query.get('uselibpqcompat') === 'true' ? libpqOptions(mode, paths.has('ca')) : pgOptions(mode);
  for (const name of ['ssl', 'sslmode', 'uselibpqcompat']) query.delete(name);
  return { paths, options };
}

const UNVERIFIED: ConnectionOptions = { rejectUnauthorized: false };

function pgOptions(mode: string): ConnectionOptions {
  return mode === 'no-verify' ? { ...UNVERIFIED } : {};
}

/** Returns what a mode means to libpq. With an authority `require` checks the certificate, but as `verify-ca` no host name. */
function libpqOptions(mode: string, hasAuthority: boolean): ConnectionOptions {
  if (hasAuthority && ['require', 'verify-ca'].includes(mode)) return { checkServerIdentity: () => undefined };
  return ['prefer', 'require'].includes(mode) ? { ...UNVERIFIED } : {};
}

/** Reads the files into the options. Throws `DatabaseFault` if one cannot be read, and changes nothing then. */
export async function readTlsFiles({ tls, place }: Pick<PostgresAddress, 'tls' | 'place'>): Promise<void> {
  if (!tls) return;
  const { paths, options } = tls;
  const contents = await fileReads.run((files) =>
    [...paths].map(([option, path]) => [option, readFile(files, option, path, place)]),
  );
  Object.assign(options, Object.fromEntries(contents));
}

function readFile(files: Files, option: FileOption, path: string, place: string): string {
  try {
    return files.read(path, MAX_FILE_BYTES).bytes.toString();
  } catch (error) {
    const reason = `${TLS_FILES[option]}: ${(error as FileFault).about(path)}`;
    throw new DatabaseFault('denied', place, reason, error, { denied: UNREADABLE });
  }
}

/** Returns a client that reads the files again before it connects. If they cannot be read, it uses the contents of before. */
export function clientWithTls(address: PostgresAddress): typeof pg.Client {
  if (!address.tls) return pg.Client;
  return class extends pg.Client {
    override connect(): Promise<pg.Client>;
    override connect(callback: (error: Error | null) => void): void;
    override connect(callback?: (error: Error | null) => void): Promise<pg.Client> | undefined {
      const refreshed = Promise.race([readTlsFiles(address).catch(() => undefined), sleep(REFRESH_TIMEOUT)]);
      const connect = () => refreshed.then(() => super.connect());
      if (!callback) return connect();
      callbackify(connect)(callback);
      return undefined;
    }
  };
}
