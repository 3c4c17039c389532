import { z } from 'zod';
import type { Finding, HookState } from '../../connectors/connector.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { countBackfilled } from '../../store/changes/outbox-rows.ts';
import {
  type BackfillStatus,
  pauseBackfill,
  readBackfills,
  requestBackfill,
  resumeBackfill,
  stopBackfill,
} from '../../store/connections/backfills.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { isSilent } from '../../sync/intake/hook-watch.ts';
import { webhookUrlOf } from '../../sync/intake/webhook-routes.ts';
import { type ActiveConnection, isRecorded } from '../../sync/workspace-context.ts';
import { connectionNamed } from '../named.ts';
import {
  ANSWER_MS,
  connectionOf,
  connectionSchema,
  type OpenWorkspace,
  type Operation,
  operation,
  textSchema,
} from '../open-workspace.ts';
import { admissionOf } from '../quota/quota.ts';

/** Adds the host that answered to an error that names a path only. @param address of the server; undefined: the embedded service */
export function withHost(finding: Finding, address: string | undefined): Finding {
  const host = URL.parse(address ?? '')?.host;
  if (finding.level !== 'error' || !host || finding.message.includes(host)) return finding;
  return { ...finding, message: `${finding.message} (${host})` };
}

/**
 * Returns why a connection takes webhooks only: a host name among its options ends in `.invalid`, which no server has (RFC 6761).
 * The demo's connection has one, because its repositories are invented. Undefined if there is no such address.
 */
export function withoutServer(options: unknown): string | undefined {
  const texts = Object.values(options as Readonly<Record<string, unknown>>).filter(
    (value) => typeof value === 'string',
  );
  const address = texts.find((text) => URL.parse(text)?.hostname.endsWith('.invalid'));
  return address === undefined ? undefined : `takes webhooks only: ${address} is an address without a server`;
}

/** Milliseconds that a vendor may take over all hooks of a connection. */
const LONGEST_LOOK = 120_000;
const LONGEST_INSTALL = 600_000;

/** Milliseconds that a vendor may take over all names of a connection. */
const LONGEST_REBIND = 60_000;

export interface ConnectionHooks {
  readonly connection: string;
  /** The address that its webhooks should use; null if unknown. */
  readonly url: string | null;
  readonly hooks: readonly (HookState & { readonly outcome?: string })[];
  /** The reason why nothing is known about them. */
  readonly failure: { readonly code: string; readonly message: string; readonly hint: string } | null;
}

/** Replaces the public address that the daemon knows. */
const publicUrlSchema = textSchema.optional();
/** Without a connection: all that take webhooks. */
const hooksSchema = z.strictObject({ connection: textSchema.optional(), publicUrl: publicUrlSchema });
const installSchema = connectionSchema.extend({ publicUrl: publicUrlSchema });

/** The webhooks at the vendors. A failure of one connection does not affect the others. */
async function hookStates(
  partition: OpenWorkspace,
  { connection, publicUrl }: z.infer<typeof hooksSchema>,
): Promise<readonly ConnectionHooks[]> {
  const chosen = connection === undefined ? partition.connections : [connectionNamed(partition, connection)];
  const taking = chosen.filter(({ secrets }) => connection !== undefined || secrets.length > 0);
  return Promise.all(taking.map((active) => statesOf(partition, active, publicUrl)));
}

async function statesOf(
  partition: OpenWorkspace,
  active: ActiveConnection,
  publicUrl: string | undefined,
): Promise<ConnectionHooks> {
  const connection = active.name;
  let url: string | null = null;
  try {
    url = urlOf(partition, active, publicUrl);
    const hooks = await hooksOf(active).states(url, AbortSignal.timeout(LONGEST_LOOK));
    return { connection, url, hooks, failure: null };
  } catch (error) {
    const { code, message, hint } = asSyncError(error);
    return { connection, url, hooks: [], failure: { code, message, hint } };
  }
}

/** Registers the connection's webhooks at its vendor, or repairs them. Idempotent. */
async function installHooks(
  partition: OpenWorkspace,
  { connection: name, publicUrl }: z.infer<typeof installSchema>,
): Promise<ConnectionHooks> {
  const active = connectionNamed(partition, name);
  const { install } = hooksOf(active);
  const url = urlOf(partition, active, publicUrl);
  const [secret] = active.secrets;
  if (secret === undefined) throw noSecret(name);
  const hooks = await install(url, secret, AbortSignal.timeout(LONGEST_INSTALL));
  await partition.hooks.check(name, AbortSignal.timeout(LONGEST_LOOK));
  return { connection: name, url, hooks, failure: null };
}

function hooksOf({ connection, connector }: ActiveConnection) {
  if (connection.hooks) return connection.hooks;
  const hint = "Register the webhook by hand: the connector's README says how.";
  throw new SyncError('refused', `worksync cannot check or register webhooks of ${connector.title}`, { hint });
}

function urlOf(partition: OpenWorkspace, { name, secrets }: ActiveConnection, given: string | undefined): string {
  if (secrets.length === 0) throw noSecret(name);
  const publicUrl = given ?? partition.publicUrl;
  if (publicUrl === undefined) throw new SyncError('public_url_missing', 'the public address of the daemon is not set');
  return webhookUrlOf(publicUrl, partition.name, name);
}

function noSecret(connection: string): SyncError {
  const hint =
    'Set webhookSecrets of this connection to a value that nobody can guess. The daemon reloads its configuration by itself; it reads environment variables only when it starts.';
  return new SyncError('secret_missing', `${connection} has no webhook secret, so it accepts no webhooks`, { hint });
}

/** Whether a hook sends nothing, or is active with a flaw that its hint explains: a missing event, no secret. */
function isWrong(hook: HookState): boolean {
  return isSilent(hook) || (hook.state === 'active' && hook.hint !== undefined);
}

/** Returns the findings of `check` about a connection's webhooks; none if they cannot be checked. */
export async function checkHooks(active: ActiveConnection): Promise<Finding[]> {
  const { webhookUrl, connection, schedule, name } = active;
  if (webhookUrl === undefined || !connection.hooks) return [];
  try {
    const states = await connection.hooks.states(webhookUrl, AbortSignal.timeout(LONGEST_LOOK));
    // If polls bring the same changes later, an inactive hook is no error.
    const level = schedule === 'off' ? 'error' : 'warning';
    const wrong = states.filter(isWrong).map(
      ({ subject, state, message, hint = `Run "worksync hooks install ${name}".` }): Finding => ({
        level,
        subject,
        hint,
        message: `webhook ${state}: ${message}`,
      }),
    );
    const on = states.filter(({ state }) => state === 'active').length;
    const ok: Finding = { level: 'ok', subject: '', message: `webhooks on: ${on}` };
    return on > 0 ? [ok, ...wrong] : wrong;
  } catch (error) {
    const { code, message, hint } = asSyncError(error);
    return [{ level: 'warning', subject: '', message: `webhooks could not be checked: ${code}: ${message}`, hint }];
  }
}

const audit = { subject: connectionOf };

export const connectionOperations = {
  hooks: operation({ body: hooksSchema, run: hookStates, timeoutMs: ANSWER_MS + LONGEST_LOOK }),
  'hooks-install': operation({
    body: installSchema,
    run: installHooks,
    audit,
    timeoutMs: ANSWER_MS + LONGEST_INSTALL,
  }),
  /**
   * Binds the names of a connection to their present targets, and reads the new targets from the start. Throws the vendor's error
   * if it cannot be reached. `called` is the name at the vendor.
   */
  rebind: operation({
    body: connectionSchema,
    async run(workspace, { connection }) {
      const active = connectionNamed(workspace, connection);
      const bound = (await active.names?.rebind(active.connection, AbortSignal.timeout(LONGEST_REBIND))) ?? [];
      return bound.map(({ entry, id, called }) => ({ name: entry, id, called }));
    },
    audit,
  }),
  'scope-names': operation({
    body: connectionSchema,
    run: async (workspace, { connection }) => connectionNamed(workspace, connection).names?.bindings() ?? [],
  }),
};

/**
 * reading  pages are read; nothing may have been sent yet
 * paused   somebody paused it: no page is read until it is resumed
 * sending  all pages are read; their items are being processed and sent
 * done     nothing is left, except what needs approval
 */
type BackfillState = 'reading' | 'paused' | 'sending' | 'done';

export type BackfillProgress = NonNullable<Awaited<ReturnType<typeof backfillProgress>>>;

/** `running`: there was one already, which continues as it was requested. */
export type AskedBackfill = { readonly outcome: 'started' | 'running'; readonly progress: BackfillProgress };

/** Throws `usage` if there is no such connection, its vendor has no backfill, its address has no server, or `since` is no time. */
async function startBackfill(
  partition: OpenWorkspace,
  { connection, since }: { readonly connection: string; readonly since: string | null },
  clock: Clock,
): Promise<AskedBackfill> {
  const fault = withoutServer(checkConnection(partition, connection).options);
  if (fault !== undefined)
    throw new SyncError('usage', `${connection} ${fault}`, { hint: '"worksync trigger" sends it sample events.' });
  if (since !== null && Number.isNaN(Date.parse(since))) throw new SyncError('usage', `"${since}" is no time`);
  const now = clock.now();
  const started = await partition.store.commit((transaction) =>
    requestBackfill(transaction, { connection, since, now }),
  );
  partition.wakeBackfills();
  const progress = await backfillProgress(partition, connection, clock);
  if (progress === null) throw new SyncError('internal', 'the backfill was not stored');
  return { outcome: started ? 'started' : 'running', progress };
}

export function canBackfill({ connection, options }: ActiveConnection): boolean {
  return connection.history !== undefined && withoutServer(options) === undefined;
}

function checkConnection(partition: OpenWorkspace, name: string): ActiveConnection {
  const active = connectionNamed(partition, name);
  if (!active.connection.history) throw new SyncError('usage', `${active.connector.title} offers no backfill`);
  return active;
}

/** Returns the running backfill, else the last one; null if there never was one, or it was stopped. */
export async function backfillProgress(partition: OpenWorkspace, connection: string, clock: Clock) {
  const { store, throttle, config } = partition;
  const [status] = await readBackfills(store.query, connection);
  if (!status) return null;
  const { pending, changes } = await countBackfilled(store.query);
  const mirrors = config.connections.some((each) => each.name === connection && isRecorded(each));
  // One request for each item that is mirrored; those that are known already cost none.
  const toCome = status.total === null ? null : Math.max(0, status.total - status.items) * (mirrors ? 1 : 0);
  const requests = toCome === null ? null : toCome + changes;
  const forecast = requests === null ? null : admissionOf(throttle, clock, requests);
  return {
    ...status,
    state: stateOf(status, pending + changes),
    at: clock.now(),
    /** Pages that wait to be processed, and changes of all backfills of this workspace that wait to be sent. */
    pending,
    changes,
    /**
     * An estimate: the remaining requests, when the last one is sent beside the present live work, and what limits the speed. Null
     * while the number of items is unknown.
     */
    forecast,
  };
}

function stateOf({ finishedAt, isPaused }: BackfillStatus, left: number): BackfillState {
  if (isPaused) return 'paused';
  if (finishedAt === null) return 'reading';
  return left > 0 ? 'sending' : 'done';
}

/** @param key the field of the answer that is true if a backfill was found */
function steering<Key extends string>(
  key: Key,
  steer: (transaction: Scope, connection: string) => Promise<boolean>,
): Operation<{ connection: string }, { readonly [Name in Key]: boolean }> {
  return {
    body: connectionSchema,
    async run(workspace, { connection }) {
      checkConnection(workspace, connection);
      const isFound = await workspace.store.commit((transaction) => steer(transaction, connection));
      workspace.wakeBackfills();
      return { [key]: isFound } as { readonly [Name in Key]: boolean };
    },
    audit,
  };
}

export const backfillOperations = {
  backfill: operation({
    body: z.strictObject({ connection: textSchema, since: textSchema.nullable() }),
    run: startBackfill,
    audit,
  }),
  'backfill-progress': operation({
    body: connectionSchema,
    run: async (workspace, { connection }, clock) => ({
      progress: await backfillProgress(workspace, connection, clock),
    }),
  }),
  'backfill-pause': steering('paused', pauseBackfill),
  'backfill-resume': steering('resumed', resumeBackfill),
  'backfill-stop': steering('stopped', stopBackfill),
};
