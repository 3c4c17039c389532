import { z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
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
import type { ActiveConnection } from '../../sync/workspace-context.ts';
import { connectionNamed } from '../named.ts';
import type { OpenWorkspace } from '../open-workspace.ts';
import { connectionOf, connectionSchema, type Operation, operation, textSchema } from '../operation.ts';
import { admissionOf } from '../quota/quota.ts';
import { withoutServer } from './finding-host.ts';

/**
 * reading  pages are read; nothing may have been sent yet
 * paused   somebody paused it: no page is read until it is resumed
 * sending  all pages are read; their items are being processed and sent
 * done     nothing is left, except what needs approval
 */
export type BackfillState = 'reading' | 'paused' | 'sending' | 'done';

export type BackfillProgress = NonNullable<Awaited<ReturnType<typeof backfillProgress>>>;

/** `running`: there was one already, which continues as it was requested. */
export type AskedBackfill = { readonly outcome: 'started' | 'running'; readonly progress: BackfillProgress };

/** Throws `usage` if there is no such connection, its vendor has no backfill, its address has no server, or `since` is no time. */
export async function startBackfill(
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
  const mirrors = config.connections.some(({ name, mirror }) => name === connection && mirror !== 'off');
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
     * Requests that are still to come as far as can be said, when the last of them can go beside live work as it is at present, and why
     * it will not go faster. Null while the number of items is unknown.
     */
    forecast,
  };
}

function stateOf({ finishedAt, isPaused }: BackfillStatus, left: number): BackfillState {
  if (isPaused) return 'paused';
  if (finishedAt === null) return 'reading';
  return left > 0 ? 'sending' : 'done';
}

const audit = { subject: connectionOf };

/** @param key holds in the answer whether there was such a backfill */
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
