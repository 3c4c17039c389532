import { z } from 'zod';
import { describeUpdate, type TaskUpdate } from '../../model/task.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import { countWaiting, expedite, waitingByLane } from '../../store/changes/outbox-rows.ts';
import { readMeta, writeMeta } from '../../store/meta.ts';
import { readLastDueAt } from '../../store/status/queue-status.ts';
import { tasksWereRead } from '../../store/workspace/workspace-reads.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import {
  differenceOf,
  digestOf,
  firstDue,
  type PlanDifference,
  type PlanDigest,
  readPlan,
} from '../../sync/outbox/planned-writes.ts';
import { isStuck } from '../installation/once.ts';
import { entityNamesOf } from '../items/human-names.ts';
import { countSchema, type OpenWorkspace, operation, textSchema } from '../open-workspace.ts';
import type { ConnectionStatus } from '../status/status.ts';

/** The writes that would be sent, and the time that they take. */
export type ShownPlan = Awaited<ReturnType<typeof showPlan>>;

/** Name of the fact that stores the last shown plan, so that a difference to it can be named. */
const SHOWN = 'plan.shown';

async function showPlan(workspace: OpenWorkspace, { limit }: { readonly limit: number }) {
  const { store, throttle } = workspace;
  const { plan, digest, reads, backfills } = await store.commit(async (transaction) => {
    const present = await readPresent(transaction);
    await writeMeta(transaction, SHOWN, JSON.stringify(present.digest));
    const backfilled = (await waitingByLane(transaction)).find(({ lane }) => lane === 'backfill');
    return { ...present, reads: (await countWaiting(transaction)).reads, backfills: backfilled?.count ?? 0 };
  });
  const counts = Map.groupBy(plan, ({ action }) => action);
  const requests = plan.length + reads;
  const { mirror, connections, state } = await workspace.status();
  const shown = firstDue(plan, limit);
  const names = await entityNamesOf(workspace, shown);
  const doneAt = throttle.drainedAt(requests, Math.min(backfills, requests));
  const isUnread = (await tasksWereRead(store.query)) ? [] : ['the workspace'];
  return {
    /** Identifies exactly these writes with exactly these bodies. */
    id: digest.id,
    writes: [...counts].map(([action, writes]) => ({
      action,
      count: writes.length,
      held: writes.filter(({ held }) => held).length,
    })),
    /** Writes, and the reads that wait. A list of several pages counts once. */
    requests,
    /** Expected time of the last one at the present share, epoch milliseconds; null if nothing is sent. */
    drainedAt: state.kind === 'halted' ? null : Math.max(doneAt, (await readLastDueAt(store.query)) ?? 0),
    mirror,
    /** Sources that were never read completely, so that more writes may follow: `the workspace`, or a connection. */
    unread: [...isUnread, ...connections.filter(isNeverPolled).map(({ name }) => name)],
    entities: shown.map(({ entity, kind, action, held, body }) => ({
      entity,
      label: names[entity]?.label ?? entity,
      action,
      held,
      ...(kind === 'task_update' && { sets: describeUpdate(body as unknown as TaskUpdate) }),
    })),
  };
}

function isNeverPolled({ schedule, lastPollAt }: ConnectionStatus): boolean {
  return schedule !== null && lastPollAt === null;
}

async function readPresent(query: Scope) {
  const plan = await readPlan(query);
  return { plan, digest: await digestOf(plan) };
}

/**
 * applied  the changes of the plan are sent before their due time, also the held ones.
 * changed  nothing was done: the writes differ from those that were shown.
 * unknown  nothing was done: another plan was shown since, or none was.
 * unread   nothing was done: the workspace was never read, so the writes would be a guess.
 */
export type AppliedPlan =
  | { readonly outcome: 'applied'; readonly changes: number; readonly left: number }
  | ({ readonly outcome: 'changed' } & PlanDifference)
  | { readonly outcome: 'unknown' | 'unread' };

/**
 * Releases the changes of the shown plan. In a running daemon the outbox continues meanwhile: writes that it has sent, and
 * changes that came after the plan was shown, are no difference and are not released.
 */
async function applyPlan(partition: OpenWorkspace, id: string, isAlone: boolean): Promise<AppliedPlan> {
  const applied = await partition.store.commit(async (transaction): Promise<AppliedPlan> => {
    const shown = JSON.parse((await readMeta(transaction, SHOWN)) ?? '{}') as Partial<PlanDigest>;
    if (shown.id !== id || shown.writes === undefined) return { outcome: 'unknown' };
    if (!(await tasksWereRead(transaction))) return { outcome: 'unread' };
    const { digest } = await readPresent(transaction);
    const difference = differenceOf({ id, writes: shown.writes }, digest);
    const { added, changed, gone } = difference;
    const count = changed.length + (isAlone ? added.length + gone.length : 0);
    if (count > 0) return { outcome: 'changed', ...difference };
    const without = new Set([...added, ...gone]);
    const entities = Object.keys(shown.writes).filter((entity) => !without.has(entity));
    await expedite(transaction, entities);
    return { outcome: 'applied', changes: entities.length, left: entities.length };
  });
  if (applied.outcome === 'changed') return { outcome: 'changed', ...(await namedDifference(partition, applied)) };
  if (applied.outcome === 'applied') partition.wakeOutbox();
  return applied;
}

async function namedDifference(
  partition: OpenWorkspace,
  { added, changed, gone }: PlanDifference,
): Promise<PlanDifference> {
  const all = [...added, ...changed, ...gone].map((entity) => ({ entity }));
  const names = await entityNamesOf(partition, all);
  const label = (entity: string) => names[entity]?.label ?? entity;
  return { added: added.map(label), changed: changed.map(label), gone: gone.map(label) };
}

const POLL_EVERY = 50;

/** Sends the plan and nothing else, as far as the quota allows, while no daemon runs. No reads, no polls, no reconcile. */
export async function sendPlan(partition: OpenWorkspace, id: string, clock: Clock): Promise<AppliedPlan> {
  const applied = await applyPlan(partition, id, true);
  if (applied.outcome !== 'applied') return applied;
  partition.startWrites();
  for (;;) {
    const { writes } = await countWaiting(partition.store.query);
    if (writes === 0 || isStuck(await partition.status(), clock.now())) return { ...applied, left: writes };
    await sleep(clock, POLL_EVERY);
  }
}

export const planOperations = {
  plan: operation({ body: z.strictObject({ limit: countSchema }), run: showPlan }),
  apply: operation({
    body: z.strictObject({ id: textSchema }),
    run: (workspace, { id }) => applyPlan(workspace, id, false),
    audit: { subject: ({ id }) => id },
  }),
};
