import type { HookState } from '../../connectors/connector.ts';
import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import type { Meter } from '../../platform/lib/meter.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import type { Store } from '../../store/database.ts';
import { redeliveryCursor, saveRedeliveryCursor } from '../../store/redeliveries.ts';
import type { ActiveConnection } from './active-connection.ts';
import type { Pauses } from './pauses.ts';

export interface HookWatchDeps {
  readonly store: Store;
  readonly connections: readonly ActiveConnection[];
  readonly pauses: Pauses;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly meter: Meter;
}

/** What is known of the webhooks of one connection at its vendor. Times are epoch milliseconds. */
export interface HookReport {
  /** When they were last seen; null: not yet. */
  readonly at: number | null;
  /** Those that send nothing, though they should. */
  readonly silent: readonly HookState[];
  /** Why the last check failed, and why redelivery could not be requested: `code: message`. */
  readonly failure: string | null;
  readonly redeliveryFailure: string | null;
}

export interface HookWatch {
  readonly jobs: readonly Job[];
  /** Undefined if the connection's webhooks cannot be checked, or the public address is not set. */
  report(connection: string): HookReport | undefined;
  /** Checks one connection now; called after a repair. */
  check(connection: string, signal: AbortSignal): Promise<void>;
}

const MINUTE = 60_000;
/** How often hooks are checked, and how often redelivery is requested. */
const LOOK_EVERY = 60 * MINUTE;
const REDELIVER_EVERY = 15 * MINUTE;
/** From the start on, so that the first polls go first, milliseconds. */
const FIRST = 10_000;

/** Whether a hook sends nothing, though it should. */
export function isSilent({ state }: HookState): boolean {
  return state === 'disabled' || state === 'absent';
}

/** Watches webhooks at their vendors: checks that they are still on, and requests redelivery of failed deliveries. */
export function createHookWatch(deps: HookWatchDeps): HookWatch {
  const watched = deps.connections.filter(
    ({ webhookUrl, connection }) => webhookUrl !== undefined && (connection.hooks || connection.redeliver),
  );
  const reports = new Map<string, HookReport>(watched.map(({ name }) => [name, NOTHING_KNOWN]));
  /** The last warning about deliveries that are not checked, so that it is logged once. */
  const cuts = new Map<string, string | undefined>();

  function note(name: string, news: Partial<HookReport>): void {
    reports.set(name, { ...(reports.get(name) ?? NOTHING_KNOWN), ...news });
  }

  /** Never rejects. A connection that the provider has limited is left for the next time. */
  async function check({ name, connection, webhookUrl }: ActiveConnection, signal: AbortSignal): Promise<void> {
    if (!connection.hooks || webhookUrl === undefined || deps.pauses.left(name, 'background') > 0) return;
    try {
      const states = await connection.hooks.states(webhookUrl, signal);
      const silent = states.filter(isSilent);
      note(name, { at: deps.clock.now(), silent, failure: null });
      deps.meter.gauge('hook_disabled', silent.length, { connection: name });
      for (const { subject, state, message } of silent)
        deps.logger.warn({ connection: name, subject, state, reason: message }, 'a webhook sends nothing');
    } catch (thrown) {
      if (signal.aborted) return;
      onFailure(name, thrown, 'webhooks could not be checked', (failure) => note(name, { failure }));
    }
  }

  /** Never rejects. */
  async function redeliver({ name, connection, webhookUrl }: ActiveConnection, signal: AbortSignal): Promise<void> {
    if (!connection.redeliver || webhookUrl === undefined || deps.pauses.left(name, 'background') > 0) return;
    try {
      const before = await redeliveryCursor(deps.store.query, name);
      const { requested: asked, cursor, cut, failure } = await connection.redeliver(webhookUrl, before, signal);
      await deps.store.commit((transaction) => saveRedeliveryCursor(transaction, name, cursor));
      deps.meter.count('redeliveries_asked_total', { connection: name }, asked);
      if (asked > 0) deps.logger.info({ connection: name, asked }, 'redelivery of failed deliveries requested');
      if (cut !== undefined && cut !== cuts.get(name))
        deps.logger.warn({ connection: name, reason: cut }, 'redelivery is not requested for every failed delivery');
      cuts.set(name, cut);
      if (failure) throw failure;
      note(name, { redeliveryFailure: null });
    } catch (thrown) {
      if (signal.aborted) return;
      const about = 'redelivery of failed deliveries could not be requested';
      onFailure(name, thrown, about, (redeliveryFailure) => note(name, { redeliveryFailure }));
    }
  }

  function onFailure(name: string, thrown: unknown, about: string, keep: (failure: string) => void): void {
    const error: SyncError = asSyncError(thrown);
    deps.pauses.recordFailure(name, error, 'background');
    keep(`${error.code}: ${error.message}`);
    deps.logger.warn({ connection: name, code: error.code, error }, about);
  }

  return {
    jobs: watched.flatMap((active) => [
      {
        name: `hooks.${active.name}`,
        when: { everyMs: LOOK_EVERY },
        // The last check left nothing to compare with.
        atStart: FIRST,
        run: (signal) => check(active, signal),
      },
      {
        name: `redeliver.${active.name}`,
        when: active.connection.redeliver ? { everyMs: REDELIVER_EVERY } : 'off',
        run: (signal) => redeliver(active, signal),
      },
    ]),
    report: (connection) => reports.get(connection),
    async check(connection, signal) {
      const active = watched.find(({ name }) => name === connection);
      if (active) await check(active, signal);
    },
  };
}

const NOTHING_KNOWN: HookReport = { at: null, silent: [], failure: null, redeliveryFailure: null };
