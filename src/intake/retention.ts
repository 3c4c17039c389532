import { asSyncError } from '../errors/sync-error.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/logger.ts';
import { piecesOf } from '../lib/pieces.ts';
import { createPortion, type Portion } from '../lib/portion.ts';
import type { Job } from '../lib/scheduler.ts';
import { letOthersIn } from '../lib/turn.ts';
import type { Store } from '../store/database.ts';
import { deleteDeliveries, purgeBodies, withOldBodies, withOldDeliveries } from '../store/deletions.ts';
import type { Scope, Sql } from '../store/workspace-scope.ts';

/**
 * A workspace, and milliseconds that the bodies of its settled deliveries are kept, and the deliveries themselves with their
 * ids.
 */
export interface Retained {
  readonly name: string;
  readonly store: Pick<Store, 'query' | 'commitRelaxed'>;
  readonly retention: { readonly bodies: number; readonly deliveries: number };
}

export interface RetentionDeps {
  readonly query: Sql;
  /** Those that are open now. */
  readonly workspaces: () => readonly Retained[];
  readonly clock: Clock;
  readonly logger: Logger;
}

const HOUR = 3_600_000;
/** Rows of one transaction. */
const ROWS = { least: 100, most: 1_000 };
/** Workspaces that one statement looks at: some milliseconds. */
const LOOKED_AT = 2_000;

/** A kind of rows that is deleted after a time. */
interface Kind {
  readonly what: keyof Retained['retention'];
  /** Which of these workspaces have some of it. */
  find(query: Sql, workspaces: readonly number[], before: number): Promise<readonly number[]>;
  /** @returns how many, 0 where none is left */
  remove(query: Scope, before: number, most: number): Promise<number>;
}

/** In this order: most bodies are gone when their deliveries are deleted. */
const KINDS: readonly Kind[] = [
  { what: 'bodies', find: withOldBodies, remove: purgeBodies },
  { what: 'deliveries', find: withOldDeliveries, remove: deleteDeliveries },
];

/** Deletes old rows: of all workspaces in one job. Those that have nothing old cost no statement of their own. */
export function retentionJob(deps: RetentionDeps): Job {
  return {
    name: 'retention',
    when: { everyMs: HOUR },
    async run(signal) {
      for (const kind of KINDS) await purge(deps, kind, signal);
    },
  };
}

/** Never rejects: what could not be purged now is purged in an hour. */
async function purge(deps: RetentionDeps, kind: Kind, signal: AbortSignal): Promise<void> {
  const portion = createPortion(deps.clock, ROWS);
  const totals = new Map<Retained, number>();
  try {
    // One piece of each in turn: a workspace with many old rows delays no other.
    for (let turn = await findOld(deps, kind, signal); turn.length > 0 && !signal.aborted; ) {
      const next: Retained[] = [];
      for (const each of turn) {
        const count = signal.aborted ? 0 : await purgePiece(deps, kind, each, portion);
        if (count > 0) next.push(each);
        totals.set(each, (totals.get(each) ?? 0) + count);
      }
      turn = next;
    }
  } catch (error) {
    deps.logger.error({ error: asSyncError(error) }, 'old deliveries could not be searched for');
  }
  for (const [{ name }, count] of totals)
    if (count > 0) deps.logger.info({ workspace: name, [kind.what]: count }, 'old deliveries purged');
}

/**
 * Never rejects: what is wrong with one workspace keeps no other from being purged. @returns how many, 0 where it has come to
 * its end
 */
async function purgePiece(
  { clock, logger }: RetentionDeps,
  kind: Kind,
  { name, store, retention }: Retained,
  portion: Portion,
): Promise<number> {
  const most = portion.size();
  const before = clock.now() - retention[kind.what];
  try {
    return await store.commitRelaxed((query) => portion.work(most, () => kind.remove(query, before, most)));
  } catch (error) {
    logger.error({ workspace: name, error: asSyncError(error) }, 'purge failed');
    return 0;
  } finally {
    await letOthersIn();
  }
}

/** By a few statements, whatever the number of workspaces: one for each retention time that is configured. */
async function findOld(deps: RetentionDeps, { what, find }: Kind, signal: AbortSignal): Promise<readonly Retained[]> {
  const old: Retained[] = [];
  const byTime = Map.groupBy(deps.workspaces(), ({ retention }) => retention[what]);
  for (const [time, workspaces] of byTime) {
    const byNumber = new Map(workspaces.map((each) => [each.store.query.workspace, each]));
    for (const some of piecesOf([...byNumber.keys()], LOOKED_AT)) {
      if (signal.aborted) return old;
      for (const number of await find(deps.query, some, deps.clock.now() - time))
        old.push(byNumber.get(number) as Retained);
      await letOthersIn();
    }
  }
  return old;
}
