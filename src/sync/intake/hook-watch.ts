import type { HookState } from '../../connectors/connector.ts';
import { asSyncError } from '../../model/errors.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import { redeliveryCursor, saveRedeliveryCursor } from '../../store/meta.ts';
import type { ActiveConnection, WorkspaceContext } from '../workspace-context.ts';

/** The known state of the webhooks of one connection at its vendor. */
export interface HookReport {
  /** The time of the last successful check, epoch milliseconds; null before the first one. */
  readonly at: number | null;
  /** The webhooks that send nothing, although they should. */
  readonly silent: readonly HookState[];
  /** Why the last check failed, and why redelivery could not be requested: `code: message`. */
  readonly failure: string | null;
  readonly redeliveryFailure: string | null;
}

export type HookWatch = ReturnType<typeof createHookWatch>;

const MINUTE = 60_000;
const CHECK_EVERY = 60 * MINUTE;
const REDELIVER_EVERY = 15 * MINUTE;
/** The first check after the start, so that the first polls go first, milliseconds. */
const FIRST_CHECK = 10_000;

const NOT_CHECKED: HookReport = { at: null, silent: [], failure: null, redeliveryFailure: null };

/** Returns whether a webhook sends nothing, although it should. */
export function isSilent({ state }: HookState): boolean {
  return state === 'disabled' || state === 'absent';
}

/** Checks at the vendors that webhooks are still on, and requests redelivery of failed deliveries. */
export function createHookWatch(context: WorkspaceContext) {
  const { store, clock, pauses, meter, logger } = context;
  const watched = context.connections.filter(
    ({ webhookUrl, connection }) => webhookUrl !== undefined && (connection.hooks || connection.redeliver),
  );
  const reports = new Map<string, HookReport>(watched.map(({ name }) => [name, NOT_CHECKED]));
  /** The last reason for incomplete redelivery, by connection, so that each is logged once. */
  const cuts = new Map<string, string | undefined>();

  function update(name: string, change: Partial<HookReport>): void {
    reports.set(name, { ...(reports.get(name) ?? NOT_CHECKED), ...change });
  }

  /** Never rejects. Skips a connection that its vendor limits until the next time. */
  async function check({ name, connection, webhookUrl }: ActiveConnection, signal: AbortSignal): Promise<void> {
    if (!connection.hooks || webhookUrl === undefined || pauses.left(name, 'background') > 0) return;
    try {
      const states = await connection.hooks.states(webhookUrl, signal);
      const silent = states.filter(isSilent);
      update(name, { at: clock.now(), silent, failure: null });
      meter.gauge('hook_disabled', silent.length, { connection: name });
      for (const { subject, state, message } of silent)
        logger.warn({ connection: name, subject, state, reason: message }, 'a webhook sends nothing');
    } catch (thrown) {
      if (signal.aborted) return;
      update(name, { failure: recordFailure(name, thrown, 'webhooks could not be checked') });
    }
  }

  /** Never rejects. Skips a connection that its vendor limits until the next time. */
  async function redeliver({ name, connection, webhookUrl }: ActiveConnection, signal: AbortSignal): Promise<void> {
    if (!connection.redeliver || webhookUrl === undefined || pauses.left(name, 'background') > 0) return;
    try {
      const previous = await redeliveryCursor(store.query, name);
      const { requested: asked, cursor, cut, failure } = await connection.redeliver(webhookUrl, previous, signal);
      await store.commit((transaction) => saveRedeliveryCursor(transaction, name, cursor));
      meter.count('redeliveries_asked_total', { connection: name }, asked);
      if (asked > 0) logger.info({ connection: name, asked }, 'redelivery of failed deliveries requested');
      if (cut !== undefined && cut !== cuts.get(name))
        logger.warn({ connection: name, reason: cut }, 'redelivery is not requested for every failed delivery');
      cuts.set(name, cut);
      if (failure) throw failure;
      update(name, { redeliveryFailure: null });
    } catch (thrown) {
      if (signal.aborted) return;
      const message = 'redelivery of failed deliveries could not be requested';
      update(name, { redeliveryFailure: recordFailure(name, thrown, message) });
    }
  }

  /** @returns the text for the report */
  function recordFailure(name: string, thrown: unknown, message: string): string {
    const error = asSyncError(thrown);
    pauses.recordFailure(name, error, 'background');
    logger.warn({ connection: name, code: error.code, error }, message);
    return `${error.code}: ${error.message}`;
  }

  return {
    jobs: watched.flatMap((active): Job[] => [
      {
        name: `hooks.${active.name}`,
        when: { everyMs: CHECK_EVERY },
        // Also after each start, because the results of earlier checks are not stored.
        atStart: FIRST_CHECK,
        run: (signal) => check(active, signal),
      },
      {
        name: `redeliver.${active.name}`,
        when: active.connection.redeliver ? { everyMs: REDELIVER_EVERY } : 'off',
        run: (signal) => redeliver(active, signal),
      },
    ]),
    /** Returns undefined if the connection's webhooks cannot be checked, or the public address is not set. */
    report: (connection: string) => reports.get(connection),
    /** Checks one connection now; called after a repair. */
    async check(connection: string, signal: AbortSignal) {
      const active = watched.find(({ name }) => name === connection);
      if (active) await check(active, signal);
    },
  };
}
