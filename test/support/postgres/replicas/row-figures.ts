import { isAmple } from './counted-service.ts';
import { allDone, allRecorded, longestCreation, type Outcome, openCreations, outcomeOf } from './figures.ts';
import { createLoad } from './load.ts';
import type { Row } from './rows.ts';
import { until } from './until.ts';

interface RowFigures extends Outcome {
  /** Milliseconds from the fault. */
  readonly times: {
    readonly 'taken over': number;
    readonly moving: number;
    /** Until every pull request had its last title, also one that was being sent. */
    readonly recorded: number;
    /** The longest wait of an item for its task after the takeover, without creations that were in flight. */
    readonly 'tasks created': number;
  };
  readonly died: readonly string[];
}

/** Deliveries before a fault strikes. */
const WARM = 60;

export async function figuresOf(row: Row): Promise<RowFigures> {
  const { cluster, fault, close } = await row.open();
  try {
    const load = createLoad(cluster, { senders: 3, mostSpecified: 45 });
    load.start();
    await until('the load runs', () => load.count().acknowledged >= WARM);
    const { since, takeover, moving } = await fault(cluster, load);
    const open = await openCreations(cluster);
    await load.stop();
    const ample = cluster.workspaces.filter(isAmple);
    const recorded = await allRecorded(ample, load, since, 'Change');
    await allRecorded(cluster.workspaces, load, since);
    const tasks = longestCreation(ample, load, since + takeover, open);
    await allDone(cluster);
    const outcome = await outcomeOf(cluster, load);
    const times = { 'taken over': takeover, moving, recorded, 'tasks created': tasks };
    return { times, died: cluster.died(), ...outcome };
  } finally {
    await close();
  }
}
