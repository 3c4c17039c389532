import { asSyncError } from '../../model/errors.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import {
  type AdaptiveBatchSize,
  chunksOf,
  createAdaptiveBatchSize,
  yieldForRequests,
} from '../../platform/lib/concurrency.ts';
import type { Job } from '../../platform/lib/scheduler.ts';
import type { Logger } from '../../platform/lib/telemetry.ts';
import { deleteAudit } from '../../store/access/audit-rows.ts';
import { deleteRequests, withOldRequests } from '../../store/changes/requests.ts';
import {
  deleteDeliveries,
  deleteTombstones,
  purgeBodies,
  withOldBodies,
  withOldDeliveries,
  withOldTombstones,
} from '../../store/installation/deletions.ts';
import { deleteQuotaUse, withOldQuotaUse } from '../../store/quota/ledger.ts';
import type { Scope, Sql, Store } from '../../store/workspace-scope.ts';

/** An open workspace, and how long its rows are kept, milliseconds. */
export interface RetainedWorkspace {
  readonly name: string;
  readonly store: Store;
  /** `bodies` also applies to the history of requests. `deliveries` applies to deliveries without their bodies. */
  readonly config: Pick<WorkspaceConfig, 'retention'>;
}

const HOUR = 3_600_000;
/** The longest delay of an answer or event about a removed link, milliseconds. */
const TOMBSTONES_KEPT = 24 * HOUR;
/** The audit is kept for somewhat more than a year, milliseconds. */
const AUDIT_KEPT = 400 * 24 * HOUR;
/** The number of rows that one transaction deletes. */
const BATCH_SIZE = { least: 100, most: 1_000 };
/** The number of workspaces that one statement searches, so that it takes some milliseconds. */
const WORKSPACES_PER_QUERY = 2_000;

/** A kind of rows that is deleted after a time. */
interface RowKind {
  readonly what: 'bodies' | 'deliveries' | 'requests' | 'quotaUse' | 'tombstones';
  /** Returns milliseconds. */
  keptFor(retention: WorkspaceConfig['retention']): number;
  /** Returns which of these workspaces have rows that are older than `before`. */
  find(query: Sql, workspaces: readonly number[], before: number): Promise<readonly number[]>;
  /** @returns the number of deleted rows; 0 if none is left */
  remove(query: Scope, before: number, most: number): Promise<number>;
}

/** The order matters: most bodies are gone before their deliveries are deleted. */
const KINDS: readonly RowKind[] = [
  { what: 'bodies', keptFor: ({ bodies }) => bodies, find: withOldBodies, remove: purgeBodies },
  { what: 'deliveries', keptFor: ({ deliveries }) => deliveries, find: withOldDeliveries, remove: deleteDeliveries },
  { what: 'requests', keptFor: ({ bodies }) => bodies, find: withOldRequests, remove: deleteRequests },
  // Pages show a week, and the day on which it began.
  { what: 'quotaUse', keptFor: () => 8 * 24 * HOUR, find: withOldQuotaUse, remove: deleteQuotaUse },
  { what: 'tombstones', keptFor: () => TOMBSTONES_KEPT, find: withOldTombstones, remove: deleteTombstones },
];

/**
 * Deletes old rows of all workspaces in one job. A workspace without old rows needs no statement of its own.
 *
 * @param open returns the workspaces that are open now
 */
export function retentionJob(query: Sql, clock: Clock, logger: Logger, open: () => readonly RetainedWorkspace[]): Job {
  /** Never rejects. After a failure, the next run purges the rows. */
  async function purge(kind: RowKind, signal: AbortSignal): Promise<void> {
    const batchSize = createAdaptiveBatchSize(clock, BATCH_SIZE);
    const totals = new Map<RetainedWorkspace, number>();
    try {
      // One batch of each workspace in turn, so that a workspace with many old rows delays no other.
      for (let round = await findWithOldRows(kind, signal); round.length > 0 && !signal.aborted; ) {
        const unfinished: RetainedWorkspace[] = [];
        for (const workspace of round) {
          const count = await purgeBatch(kind, workspace, batchSize, signal);
          if (count > 0) unfinished.push(workspace);
          totals.set(workspace, (totals.get(workspace) ?? 0) + count);
        }
        round = unfinished;
      }
    } catch (error) {
      logger.error({ error: asSyncError(error) }, 'old rows could not be searched for');
    }
    for (const [{ name }, count] of totals)
      if (count > 0) logger.info({ workspace: name, [kind.what]: count }, 'old rows purged');
  }

  /** Returns the workspaces with old rows. Needs a few statements for each configured retention time, for any number of workspaces. */
  async function findWithOldRows({ keptFor, find }: RowKind, signal: AbortSignal): Promise<RetainedWorkspace[]> {
    const found: RetainedWorkspace[] = [];
    const byTime = Map.groupBy(open(), ({ config }) => keptFor(config.retention));
    for (const [time, workspaces] of byTime) {
      const byNumber = new Map(workspaces.map((each) => [each.store.query.workspace, each]));
      for (const some of chunksOf([...byNumber.keys()], WORKSPACES_PER_QUERY)) {
        if (signal.aborted) return found;
        for (const number of await find(query, some, clock.now() - time))
          found.push(byNumber.get(number) as RetainedWorkspace);
        await yieldForRequests();
      }
    }
    return found;
  }

  /**
   * Never rejects, so that a failure of one workspace does not stop the others.
   *
   * @returns the number of deleted rows; 0 if none is left, after a failure, or if the signal has aborted
   */
  async function purgeBatch(
    kind: RowKind,
    { name, store, config }: RetainedWorkspace,
    batchSize: AdaptiveBatchSize,
    signal: AbortSignal,
  ): Promise<number> {
    if (signal.aborted) return 0;
    const most = batchSize.size();
    const before = clock.now() - kind.keptFor(config.retention);
    try {
      return await store.commitRelaxed((scope) => batchSize.work(most, () => kind.remove(scope, before, most)));
    } catch (error) {
      logger.error({ workspace: name, error: asSyncError(error) }, 'purge failed');
      return 0;
    } finally {
      await yieldForRequests();
    }
  }

  /** Never rejects. Deletes in batches, but not by workspace, because the audit belongs to the installation. */
  async function purgeAudit(signal: AbortSignal): Promise<void> {
    const batchSize = createAdaptiveBatchSize(clock, BATCH_SIZE);
    const before = clock.now() - AUDIT_KEPT;
    try {
      for (let count = 1; count > 0 && !signal.aborted; ) {
        const most = batchSize.size();
        count = await batchSize.work(most, () => deleteAudit(query, before, most));
        await yieldForRequests();
      }
    } catch (error) {
      logger.error({ error: asSyncError(error) }, 'the audit could not be purged');
    }
  }

  return {
    name: 'retention',
    when: { everyMs: HOUR },
    async run(signal) {
      for (const kind of KINDS) await purge(kind, signal);
      await purgeAudit(signal);
    },
  };
}
