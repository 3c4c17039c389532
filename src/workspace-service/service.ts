import type { AddressInfo } from 'node:net';
import { SyncError } from '../errors/sync-error.ts';
import { listen } from '../http/server.ts';
import { createBell } from '../lib/bell.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import type { Random } from '../lib/random.ts';
import { CorruptDatabaseError, type Database, NewerDatabaseError, openDatabase, takeLock } from '../lib/sqlite.ts';
import type { Steps } from '../lib/steps.ts';
import { BASE_PATH } from '../workspace/contract.ts';
import { createAccess } from './access.ts';
import { type Administration, createAdministration } from './administration.ts';
import { createCommits } from './commits.ts';
import type { Service } from './context.ts';
import { createEvents } from './events.ts';
import type { Faults } from './faults.ts';
import { openFileStore } from './file-store.ts';
import { namedDigests } from './files.ts';
import { createHandlers } from './handlers.ts';
import { MIGRATIONS } from './migrations.ts';
import { createPipeline } from './pipeline.ts';
import type { Quota } from './quota.ts';
import { openQuotaLog } from './quota-log.ts';
import { createStatistics, type KeyStatistics } from './statistics.ts';
import type { ServiceTables } from './tables.ts';

export interface WorkspaceServiceOptions {
  /** The service's own SQLite file; its folder must exist. Uploaded files lie beside it in `<file>.files/`. */
  readonly file: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly quota: Quota;
  /** Tests only: the network between client and service. */
  readonly faults?: Faults;
  readonly steps?: Steps;
}

/** What the service holds and has received, counted from its rows and its own door. */
interface ServiceStatistics {
  readonly tasks: number;
  readonly workItems: number;
  readonly pullRequests: number;
  /** By id of the API key, since the service was opened. */
  readonly requests: ReadonlyMap<string, KeyStatistics>;
}

export interface WorkspaceService extends Administration {
  /** Port 0 takes a free one. Resolves with the base address, which ends in `/api/v1`. */
  listen(address: { host: string; port: number }): Promise<string>;
  statistics(): Promise<ServiceStatistics>;
  /** Answers what is in hand, commits what waits, closes the file. Idempotent. */
  close(): Promise<void>;
}

/**
 * Opens the reference workspace service on its file. One process may hold the file: the second gets `locked`.
 * Throws `locked`, `database_newer`, `database_corrupt`.
 */
export async function createWorkspaceService(options: WorkspaceServiceOptions): Promise<WorkspaceService> {
  const lock = takeLock(`${options.file}.lock`);
  if (lock === undefined) throw new SyncError('locked', `${options.file} is served by another process`);
  try {
    const database = await open(options);
    return await assemble(options, database, async () => {
      await database.close();
      lock.release();
    });
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function open({ file, steps }: WorkspaceServiceOptions): Promise<Database<ServiceTables>> {
  try {
    return await openDatabase<ServiceTables>({ file, steps, migrations: MIGRATIONS });
  } catch (error) {
    if (error instanceof NewerDatabaseError) throw new SyncError('database_newer', error.message, { cause: error });
    if (error instanceof CorruptDatabaseError) throw new SyncError('database_corrupt', error.message, { cause: error });
    throw error;
  }
}

async function assemble(
  options: WorkspaceServiceOptions,
  database: Database<ServiceTables>,
  release: () => Promise<void>,
): Promise<WorkspaceService> {
  const { clock, random, logger, quota, faults } = options;
  const commits = createCommits(database);
  const access = createAccess({ database, commits, clock, logger });
  const files = await openFileStore(`${options.file}.files`, random, await namedDigests(database));
  const bell = createBell();
  const events = createEvents({ clock, random, bell });
  const service: Service = { database, commits, access, files, events, clock, random, logger };
  const quotaLog = await openQuotaLog({ database, commits, clock, quota });
  const statistics = createStatistics();
  const server = createPipeline({ service, handlers: createHandlers(service), quotaLog, statistics, faults });
  let closing: Promise<void> | undefined;
  const close = async () => {
    await server.close();
    await commits.idle();
    await release();
  };
  return {
    ...createAdministration(service),
    async listen({ host, port }) {
      await listen(server, { host, port });
      return baseAddress(server.server.address() as AddressInfo);
    },
    statistics: async () => ({ ...(await countRows(database)), requests: statistics.byKey() }),
    close: () => (closing ??= close()),
  };
}

function baseAddress({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}${BASE_PATH}`;
}

async function countRows({ query }: Database<ServiceTables>) {
  const count = async (table: 'tasks' | 'work_items' | 'pull_requests') => {
    const row = await query
      .selectFrom(table)
      .select((expression) => expression.fn.countAll<number>().as('rows'))
      .executeTakeFirstOrThrow();
    return row.rows;
  };
  return {
    tasks: await count('tasks'),
    workItems: await count('work_items'),
    pullRequests: await count('pull_requests'),
  };
}
