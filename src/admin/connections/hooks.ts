import { z } from 'zod';
import type { Finding, HookState } from '../../connectors/connector.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import { isSilent } from '../../sync/intake/hook-watch.ts';
import { webhookUrlOf } from '../../sync/intake/webhook-routes.ts';
import type { ActiveConnection } from '../../sync/workspace-context.ts';
import { connectionNamed } from '../named.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { ANSWER_MS, connectionOf, connectionSchema, operation, textSchema } from '../operation.ts';

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
