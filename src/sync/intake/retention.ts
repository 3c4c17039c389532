import { asSyncError } from '../../model/errors/sync-error.ts';
import { type AdaptiveBatchSize, createAdaptiveBatchSize } from '../../platform/lib/adaptive-batch-size.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import { piecesOf } from '../../platform/lib/pieces.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import { yieldForRequests } from '../../platform/lib/yield.ts';
import { deleteAudit } from '../../store/audit-rows.ts';
import type { Store } from '../../store/database.ts';
import {
  deleteDeliveries,
  deleteTombstones,
  purgeBodies,
  withOldBodies,
  withOldDeliveries,
  withOldTombstones,
} from '../../store/deletions.ts';
import { deleteQuotaUse, withOldQuotaUse } from '../../store/quota-use.ts';
import { deleteRequests, withOldRequests } from '../../store/requests.ts';
import type { Scope, Sql } from '../../store/workspace-scope.ts';

/**
 * A workspace, and milliseconds that the bodies of its settled deliveries are kept, as is the history of its requests, and the
 * deliveries themselves with their ids.
 */
export interface RetainedWorkspace {
  readonly name: string;
  readonly store: Pick<Store, 'query' | 'commitRelaxed'>;
  readonly retention: { readonly bodies: number; readonly deliveries: number };
}

export interface RetentionDeps {
  readonly query: Sql;
  /** Those that are open now. */
  readonly workspaces: () => readonly RetainedWorkspace[];
  readonly clock: Clock;
  readonly logger: Logger;
}

const HOUR = 3_600_000;
/** No answer or event about a removed link comes later than this, milliseconds. */
const TOMBSTONES_KEPT = 24 * HOUR;
/** Rows of one transaction. */
const ROWS = { least: 100, most: 1_000 };
/** Workspaces that one statement looks at: some milliseconds. */
const LOOKED_AT = 2_000;

/** A kind of rows that is deleted after a time. */
interface Kind {
  readonly what: 'bodies' | 'deliveries' | 'requests' | 'quotaUse' | 'tombstones';
  /** Milliseconds. */
  keptFor(retention: RetainedWorkspace['retention']): number;
  /** Which of these workspaces have some of it. */
  find(query: Sql, workspaces: readonly number[], before: number): Promise<readonly number[]>;
  /** @returns how many, 0 where none is left */
  remove(query: Scope, before: number, most: number): Promise<number>;
}

/** In this order: most bodies are gone when their deliveries are deleted. */
const KINDS: readonly Kind[] = [
  { what: 'bodies', keptFor: ({ bodies }) => bodies, find: withOldBodies, remove: purgeBodies },
  { what: 'deliveries', keptFor: ({ deliveries }) => deliveries, find: withOldDeliveries, remove: deleteDeliveries },
  { what: 'requests', keptFor: ({ bodies }) => bodies, find: withOldRequests, remove: deleteRequests },
  // A week is shown, and the day in which it began.
  { what: 'quotaUse', keptFor: () => 8 * 24 * HOUR, find: withOldQuotaUse, remove: deleteQuotaUse },
  { what: 'tombstones', keptFor: () => TOMBSTONES_KEPT, find: withOldTombstones, remove: deleteTombstones },
];

/** What people did is of more than one year. */
const AUDIT_KEPT = 400 * 24 * HOUR;

/** Deletes old rows: of all workspaces in one job. Those that have nothing old cost no statement of their own. */
export function retentionJob(deps: RetentionDeps): Job {
  return {
    name: 'retention',
    when: { everyMs: HOUR },
    async run(signal) {
      for (const kind of KINDS) await purge(deps, kind, signal);
      await purgeAudit(deps, signal);
    },
  };
}

/** Never rejects: what could not be purged now is purged in an hour. */
async function purge(deps: RetentionDeps, kind: Kind, signal: AbortSignal): Promise<void> {
  const portion = createAdaptiveBatchSize(deps.clock, ROWS);
  const totals = new Map<RetainedWorkspace, number>();
  try {
    // One piece of each in turn: a workspace with many old rows delays no other.
    for (let turn = await findOld(deps, kind, signal); turn.length > 0 && !signal.aborted; ) {
      const next: RetainedWorkspace[] = [];
      for (const each of turn) {
        const count = signal.aborted ? 0 : await purgePiece(deps, kind, each, portion);
        if (count > 0) next.push(each);
        totals.set(each, (totals.get(each) ?? 0) + count);
      }
      turn = next;
    }
  } catch (error) {
    deps.logger.error({ error: asSyncError(error) }, 'old rows could not be searched for');
  }
  for (const [{ name }, count] of totals)
    if (count > 0) deps.logger.info({ workspace: name, [kind.what]: count }, 'old rows purged');
}

/** Never rejects. Of no workspace: in pieces of its own. */
async function purgeAudit({ query, clock, logger }: RetentionDeps, signal: AbortSignal): Promise<void> {
  const portion = createAdaptiveBatchSize(clock, ROWS);
  const before = clock.now() - AUDIT_KEPT;
  try {
    for (let count = 1; count > 0 && !signal.aborted; ) {
      const most = portion.size();
      count = await portion.work(most, () => deleteAudit(query, before, most));
      await yieldForRequests();
    }
  } catch (error) {
    logger.error({ error: asSyncError(error) }, 'the audit could not be purged');
  }
}

/**
 * Never rejects: what is wrong with one workspace keeps no other from being purged. @returns how many, 0 where it has come to
 * its end
 */
async function purgePiece(
  { clock, logger }: RetentionDeps,
  kind: Kind,
  { name, store, retention }: RetainedWorkspace,
  portion: AdaptiveBatchSize,
): Promise<number> {
  const most = portion.size();
  const before = clock.now() - kind.keptFor(retention);
  try {
    return await store.commitRelaxed((query) => portion.work(most, () => kind.remove(query, before, most)));
  } catch (error) {
    logger.error({ workspace: name, error: asSyncError(error) }, 'purge failed');
    return 0;
  } finally {
    await yieldForRequests();
  }
}

/** By a few statements, whatever the number of workspaces: one for each retention time that is configured. */
async function findOld(
  deps: RetentionDeps,
  { keptFor, find }: Kind,
  signal: AbortSignal,
): Promise<readonly RetainedWorkspace[]> {
  const old: RetainedWorkspace[] = [];
  const byTime = Map.groupBy(deps.workspaces(), ({ retention }) => keptFor(retention));
  for (const [time, workspaces] of byTime) {
    const byNumber = new Map(workspaces.map((each) => [each.store.query.workspace, each]));
    for (const some of piecesOf([...byNumber.keys()], LOOKED_AT)) {
      if (signal.aborted) return old;
      for (const number of await find(deps.query, some, deps.clock.now() - time))
        old.push(byNumber.get(number) as RetainedWorkspace);
      await yieldForRequests();
    }
  }
  return old;
}
