import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Cluster, startCluster } from './cluster.ts';
import type { Fault } from './faults.ts';
import { allArrived, outcomeOf } from './figures.ts';
import { createLoad, type Load } from './load.ts';

/** In one cluster, one after another; the whole matrix with its figures: `test/replicas/matrix.test.ts`. */
export function describeFaults(faults: readonly (readonly [string, Fault])[]): void {
  let cluster: Cluster;
  let load: Load;

  beforeAll(async () => {
    // All at once, over an empty database.
    cluster = await startCluster({ ample: 9, specified: 2 });
    load = createLoad(cluster, { senders: 3, mostSpecified: 60 });
    load.start();
  });
  afterAll(() => cluster.close());

  for (const [what, fault] of faults)
    it(`go on when ${what}`, async () => {
      await fault(cluster, load);
      expect(cluster.died()).toEqual([]);
    });

  it('have lost and doubled nothing then, and kept both windows', async () => {
    await load.stop();
    const isWaiting = await allArrived(cluster);
    const outcome = await outcomeOf(cluster, load, isWaiting);
    expect(outcome).toMatchObject({ lost: 0, doubled: 0, refused: 0 });
    expect(outcome.mostInMinute).toBeLessThanOrEqual(40);
    expect(outcome.mostInWindow).toBeLessThanOrEqual(200);
    expect(outcome.acknowledged).toBeGreaterThan(50);
  });
}
