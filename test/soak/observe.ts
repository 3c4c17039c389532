import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import BetterSqlite from 'better-sqlite3';
import { databaseFile, usageOf } from '../bench/daemon.ts';

/** The daemon at rest: everything that was sent is taken over. Bytes, and milliseconds of the daemon's time. */
export interface Observed {
  readonly deliveries: number;
  /** Hours of the daemon's time since its start. */
  readonly hours: number;
  readonly resident: number;
  /** After a collection, as the daemon itself tells. */
  readonly heap: number;
  readonly external: number;
  /** Open files and connections. */
  readonly handles: number;
  readonly database: number;
  readonly log: number;
  readonly rows: number;
  readonly oldestDelivery: number;
  readonly oldestBody: number;
}

interface Told {
  readonly heap: number;
  readonly external: number;
}

/** Returns the observation at `now`; undefined until the daemon has reported its memory. */
export function observe(
  daemon: { readonly folder: string; readonly pid: number; readonly memory: string },
  at: Pick<Observed, 'deliveries' | 'hours'>,
  now: number,
): Observed | undefined {
  const told = lastOf(daemon.memory);
  if (!told) return undefined;
  const file = databaseFile(daemon.folder);
  return {
    ...at,
    ...told,
    resident: usageOf(daemon.pid).resident,
    handles: readdirSync(`/proc/${daemon.pid}/fd`).length,
    database: statSync(file).size,
    log: existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0,
    ...rowsOf(file, now),
  };
}

function lastOf(file: string): Told | undefined {
  const line = existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').at(-1) : undefined;
  return line ? (JSON.parse(line) as Told) : undefined;
}

function rowsOf(file: string, now: number): Pick<Observed, 'rows' | 'oldestDelivery' | 'oldestBody'> {
  return reading(file, (ask) => ({
    rows: ask('select count(*) from inbox') ?? 0,
    oldestDelivery: now - (ask('select min(received_at) from inbox') ?? now),
    oldestBody:
      now - (ask('select min(settled_at) from inbox where settled_at is not null and body is not null') ?? now),
  }));
}

export function isBusy(folder: string): boolean {
  return reading(
    databaseFile(folder),
    (ask) => ask("select 1 from inbox where state = 'pending' limit 1") !== undefined,
  );
}

/** For a moment only: who reads for long keeps the log from being taken over. */
function reading<Result>(file: string, read: (ask: (query: string) => number | undefined) => Result): Result {
  const database = new BetterSqlite(file, { readonly: true });
  try {
    return read((query) => (database.prepare(query).pluck().get() as number | null | undefined) ?? undefined);
  } finally {
    database.close();
  }
}
