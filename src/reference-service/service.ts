import type { AddressInfo } from 'node:net';
import { SyncError } from '../model/errors.ts';
import type { Database } from '../platform/database/database-types.ts';
import { takeLock } from '../platform/database/sqlite.ts';
import { PRIVATE_RANGES } from '../platform/http/addresses.ts';
import type { OutboundProxies } from '../platform/http/connect.ts';
import { createHttpClient, type HttpClient } from '../platform/http/http-client.ts';
import { createOrigins } from '../platform/http/origin.ts';
import { type Listen, listen, usable } from '../platform/http/server.ts';
import { type Clock, createWakeSignal, type Random } from '../platform/lib/clock.ts';
import type { Logger, Meter, Steps } from '../platform/lib/telemetry.ts';
import { BASE_PATH } from '../workspace-api/contract.ts';
import { type Administration, createAdministration } from './access/administration.ts';
import { createAccess } from './access/caller-rights.ts';
import { openFileStore } from './files/file-store.ts';
import { namedDigests } from './files/files.ts';
import type { Service } from './http/call.ts';
import { createPipeline, type Faults } from './http/pipeline.ts';
import { type KeyStatistics, openQuotaLog, type Quota } from './http/quota-log.ts';
import { OWN_VARIANT, type Variant } from './http/variant.ts';
import { openSecretBox } from './keys/keys.ts';
import type { ServiceTables } from './storage/service-tables.ts';
import { createCommits, openServiceDatabase } from './storage/transactions.ts';
import { createEvents } from './webhooks/events.ts';
import { createWebhookDelivery } from './webhooks/webhooks.ts';

export interface WorkspaceServiceOptions {
  /** The service's own SQLite file; its folder must exist. Uploaded files lie beside it in `<file>.files/`. */
  readonly file: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly quota: Quota;
  /** The key of encrypted values; absent: one of its own in `<file>.key`, created at the first start. */
  readonly secretKey?: Buffer;
  /** Members' writes at git providers, by the provider's name; absent ones cannot be written to. */
  readonly providers?: Service['providers'];
  /** Whether webhooks may go to this machine and to private networks. */
  readonly allowPrivateWebhooks?: boolean;
  /** Absent: our own. */
  readonly variant?: Variant;
  /** The way that clients reach it, if it differs from the address that it listens on. */
  readonly reached?: Reached;
  readonly meter?: Meter;
  /** Absent: on a socket. */
  readonly listen?: Listen;
  /** Tests only: the network between client and service. */
  readonly faults?: Faults;
  /** The proxies for webhooks; absent: direct. */
  readonly proxies?: OutboundProxies | undefined;
  /** Sends webhooks; absent: a client of its own. */
  readonly http?: HttpClient;
  readonly steps?: Steps;
}

/** Addresses of uploads and files in answers begin with a name of ours, and never with one that a client made up. */
export interface Reached {
  /** The beginning of all addresses. */
  readonly publicUrl?: string;
  /** Names that addresses may begin with, besides those of loopback, if a client used them and there is no public address. */
  readonly allowedHosts?: readonly string[];
  /** Proxies that are trusted to report TLS. */
  readonly trustedProxies?: readonly string[];
}

/** Counts of the service's rows and received requests. */
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
  /** Answers the requests in flight, commits waiting writes, closes the file. Idempotent. */
  close(): Promise<void>;
}

/**
 * Opens the reference workspace service on its file. One process may hold the file: the second gets `locked`.
 * Throws `locked`, `database_newer`, `database_corrupt`, `secret_key_missing`, `secret_key_wrong`.
 */
export async function createWorkspaceService(options: WorkspaceServiceOptions): Promise<WorkspaceService> {
  const lock = takeLock(`${options.file}.lock`);
  if (lock === undefined) throw new SyncError('locked', `${options.file} is served by another process`);
  try {
    const database = await openServiceDatabase(options);
    const release = async () => {
      await database.close();
      lock.release();
    };
    return await assemble(options, database, release).catch(async (error: unknown) => {
      await release();
      throw error;
    });
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function assemble(
  options: WorkspaceServiceOptions,
  database: Database<ServiceTables>,
  release: () => Promise<void>,
): Promise<WorkspaceService> {
  const { clock, random, logger, variant = OWN_VARIANT, file, secretKey: given } = options;
  const { publicUrl, allowedHosts, trustedProxies } = options.reached ?? {};
  const addressed = createOrigins({ allowedHosts });
  const ending = new AbortController();
  const commits = createCommits(database);
  const foundation = { database, commits, variant, clock, random, logger, wakeSignal: createWakeSignal() };
  const service: Service = {
    ...foundation,
    access: createAccess(foundation),
    quotaLog: await openQuotaLog(foundation, options.quota),
    files: await openFileStore(`${file}.files`, random, await namedDigests(database)),
    events: createEvents(foundation),
    secrets: await openSecretBox({ file, given, database, random, owner: true }),
    providers: options.providers ?? {},
    allowPrivateWebhooks: options.allowPrivateWebhooks ?? false,
    originFor: (request) => publicUrl ?? addressed(request).origin ?? originOf(server.server.address() as AddressInfo),
    ending: ending.signal,
  };
  const http = options.http ?? webhookClient(options);
  const delivery = createWebhookDelivery(service, http);
  const server = createPipeline(service, options.faults, trustedProxies);
  let closing: Promise<void> | undefined;
  const close = async () => {
    const cancel = clock.after(GRACE, () => ending.abort());
    await server.close();
    cancel();
    await delivery.stop();
    await http.close();
    await commits.idle();
    await release();
  };
  delivery.start();
  return {
    ...createAdministration(service),
    async listen({ host, port }) {
      if (options.listen) return (await options.listen(server, { host, port })) + BASE_PATH;
      await listen(server, { host, port });
      return originOf(server.server.address() as AddressInfo) + BASE_PATH;
    },
    statistics: async () => ({ ...(await countRows(database)), requests: service.quotaLog.byKey() }),
    close: () => (closing ??= close()),
  };
}

/** Milliseconds that a shutdown waits for providers: less than an orchestrator allows. */
const GRACE = 5_000;

/** Milliseconds in which a receiver has to answer (W65). */
const PATIENCE = 3_000;

function webhookClient({ steps, meter, allowPrivateWebhooks, proxies }: WorkspaceServiceOptions) {
  const timeouts = { connect: PATIENCE, headers: PATIENCE, body: PATIENCE, total: PATIENCE };
  const blockedRanges = allowPrivateWebhooks ? [] : PRIVATE_RANGES;
  return createHttpClient({ steps, meter, timeouts, blockedRanges, proxies });
}

function originOf({ address, family, port }: AddressInfo): string {
  return usable(`http://${family === 'IPv6' ? `[${address}]` : address}:${port}`);
}

async function countRows({ query }: Database<ServiceTables>) {
  const count = async (table: 'tasks' | 'work_items' | 'pull_requests') => {
    const { rows } = await query
      .selectFrom(table)
      .select((expression) => expression.fn.countAll<number>().as('rows'))
      .executeTakeFirstOrThrow();
    return rows;
  };
  return {
    tasks: await count('tasks'),
    workItems: await count('work_items'),
    pullRequests: await count('pull_requests'),
  };
}
