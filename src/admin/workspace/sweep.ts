import { entity } from '../../model/change.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { findChange } from '../../store/changes/outbox-rows.ts';
import { countListed, findRunningSweep, readSweeps } from '../../store/workspace/workspace-sweeps.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { SWEEP } from '../../sync/outbox/sweep-jobs.ts';
import { entityNamesOf } from '../items/human-names.ts';
import { emptySchema, type OpenWorkspace, operation } from '../open-workspace.ts';

export type SweepProgress = Awaited<ReturnType<typeof sweepProgress>>;

async function sweepProgress(partition: OpenWorkspace, _body: object, clock: Clock) {
  const { running, last } = await readSweeps(partition.store.query);
  const { state } = await partition.status();
  const report = running ?? last;
  const names = await entityNamesOf(partition, report?.latest ?? []);
  const named = report?.latest.map((each) => ({ ...each, label: names[each.entity]?.label ?? each.entity })) ?? [];
  return {
    /** The running round, else the last one, with names for its findings; null if there never was one. */
    report: report && { ...report, latest: named },
    /** Records in the list of the running round so far. */
    listed: await countListed(partition.store.query),
    /** The obstacle that the running round waits for; null if none runs. */
    waitsFor: running === null ? null : await waitsFor(partition.store.query),
    /** The reason why nothing reaches the workspace, or only later; null if nothing prevents it. */
    state: state.kind === 'halted' ? `nothing can be sent: ${state.code}: ${state.message}. ${state.hint}` : null,
    at: clock.now(),
  };
}

const LISTS = [
  [entity.readTasks, 'the list of tasks'],
  [entity.readPullRequests, 'the list of pull requests'],
] as const;

async function waitsFor(query: Scope): Promise<string> {
  const reads = await Promise.all(LISTS.map(async ([name, list]) => [list, await findChange(query, name)] as const));
  const waits = reads.flatMap(([list, read]) => {
    if (read === undefined) return [];
    if (read.state === 'sending') return [`${list} is being read`];
    return [`${list} waits for quota that nothing else needs${read.error === null ? '' : `, after ${read.error}`}`];
  });
  return waits.join('; ') || 'the lists are being compared';
}

export const sweepOperations = {
  /** Begins a round, or joins the running one; requests what that one lacks and no pending read covers. */
  sweep: operation({
    body: emptySchema,
    async run({ store, timetable }) {
      const running = await findRunningSweep(store.query);
      await timetable.runNow(SWEEP);
      return { isNew: running === undefined };
    },
    audit: {},
  }),
  'sweep-progress': operation({ body: emptySchema, run: sweepProgress }),
};
