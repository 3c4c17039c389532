import { setTimeout as sleep } from 'node:timers/promises';
import { callbackify } from 'node:util';
import pg from 'pg';
import { fileReads } from '../lib/file-reads.ts';
import type { FileFault, Files } from '../lib/regular-files.ts';
import { DatabaseFault } from './database-fault.ts';
import { type FileOption, type PostgresAddress, TLS_FILES } from './postgres-address.ts';

const MAX_FILE_BYTES = 1_048_576;
const UNREADABLE = 'In the address, name a regular file of at most 1 MiB that the user of worksync may read.';
/** How long a connection waits for files that were read before. */
const REFRESH_TIMEOUT_MS = 500;

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

/** Returns a client that reads the files again before it connects. Otherwise it uses the contents that were read last. */
export function clientWithTls(address: PostgresAddress): typeof pg.Client {
  if (!address.tls) return pg.Client;
  return class extends pg.Client {
    override connect(): Promise<pg.Client>;
    override connect(callback: (error: Error | null) => void): void;
    override connect(callback?: (error: Error | null) => void): Promise<pg.Client> | undefined {
      const refreshed = Promise.race([
        readTlsFiles(address).catch(() => undefined),
        sleep(REFRESH_TIMEOUT_MS, undefined, { ref: false }),
      ]);
      const connect = () => refreshed.then(() => super.connect());
      if (!callback) return connect();
      callbackify(connect)(callback);
      return undefined;
    }
  };
}
