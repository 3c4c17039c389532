import { isAmple } from './counted-service.ts';
import { allDone, allRecorded, longestCreation, type Outcome, openCreations, outcomeOf } from './figures.ts';
import { createLoad } from './load.ts';
import type { Row } from './rows.ts';
import { until } from './until.ts';

/** Milliseconds, and what came of the deliveries. */
export interface RowFigures extends Outcome {
  readonly what: string;
  readonly takeover: number;
  readonly moving: number;
  /** Until every pull request had its last title, also what was being sent. */
  readonly recorded: number;
  /** The longest wait of an item for its task after the takeover; of items whose creation was not in flight when the fault struck. */
  readonly tasks: number;
  readonly died: readonly string[];
}

/** Deliveries before a fault strikes. */
const WARM = 60;

export async function figuresOf(row: Row): Promise<RowFigures> {
  const { what } = row;
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
    return { what, takeover, moving, recorded, tasks, died: cluster.died(), ...outcome };
  } finally {
    await close();
  }
}

const AIMS = { takeover: 5_000, moving: 10_000, recorded: 45_000, tasks: 10_000 };

/**
 * The page with these rows in the place of those that were there before.
 *
 * @param order what happens in each row, in the order of the page
 */
export function pageOf(before: string, order: readonly string[], figures: readonly RowFigures[]): string {
  const present = before.split('\n').filter((line) => line.startsWith('| '));
  const lines = [...rowsOf(figures), ...present];
  const rows = order.flatMap((what) => lines.find((line) => line.split('|')[1]?.trim() === what) ?? []);
  return `${HEAD}${rows.join('\n')}\n`;
}

function rowsOf(figures: readonly RowFigures[]): readonly string[] {
  return figures.map((each) => {
    const isKept = each.lost + each.doubled + each.refused + each.died.length === 0;
    const late = Object.entries(AIMS).filter(([name, aim]) => each[name as keyof typeof AIMS] > aim);
    const result = isKept ? (late.length === 0 ? 'kept' : 'kept, late') : 'broken';
    const cells = [
      ...[each.what, result, each.acknowledged, each.lost, each.doubled],
      ...[`${each.mostInMinute}, ${each.mostInWindow}`, seconds(each.takeover), seconds(each.moving)],
      ...[seconds(each.recorded), seconds(each.tasks)],
    ];
    return `| ${cells.join(' | ')} |`;
  });
}

const seconds = (milliseconds: number) => `${(milliseconds / 1_000).toFixed(1)} s`;

const HEAD = `# What faults do to several replicas

Written by \`npm run test:replicas -- -u\`: three real processes over a real PostgreSQL, under load, beside workspace services
whose requests are counted at their door. Aims: nothing lost, nothing doubled, at most 40 requests in any minute and 200 in any 15
(in the row about used-up windows 50 in any two; none refused), taken over within 5 s, everything moving again within 10 s, a pull request that was being sent recorded within 45 s, every item's task created within 10 s
after the takeover or its delivery. A creation that was in flight when its process ended is excepted: one list, read after 100 s,
settles it, since creating is not idempotent.

| what happens | result | acknowledged | lost | doubled | most in short, long window | taken over | moving | recorded | tasks |
| ------------ | ------ | ------------ | ---- | ------- | --------------------- | ---------- | ------ | -------- | ----- |
`;
