import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { EXPECTED, expectGoodEnd, held, openWithTasks, STORY } from '../support/faults/crash-story.ts';
import { isDeep, killsOf, PARTS_OF_KILLS } from '../support/harness/depth.ts';

/** A plain run kills once, in the middle of the story, where the most may be lost: a request was carried out, and is not known to be. */
const PLAIN = 'request after';

/** @param kinds of all steps */
function stepsToKillAt(kinds: readonly string[]): number[] {
  const numbers = kinds.map((_, index) => index + 1);
  if (isDeep) return killsOf(numbers, 1);
  const ofKind = numbers.filter((step) => kinds[step - 1] === PLAIN);
  return ofKind.slice(ofKind.length / 2, ofKind.length / 2 + 1);
}

/** Most of a run is spent waiting for the quota, so more run at once than there are processors. */
const AT_ONCE = 3 * availableParallelism();

/** Runs into the kill, starts again, and says what is wrong then. */
async function survive(killAt: number): Promise<boolean> {
  const { site, tasks } = await openWithTasks();
  try {
    const end = await site.runChild(STORY, killAt);
    await expectGoodEnd(site, tasks, `step ${killAt}`);
    return end.killed;
  } finally {
    await site.close();
  }
}

describe('kill -9', () => {
  let steps: readonly string[] = [];

  it('is numbered at every commit and every request, as counted at the database and at the service', async () => {
    const { site, tasks } = await openWithTasks();
    const end = await site.runChild(STORY, 0);
    if (end.killed) throw new Error('nobody was to kill it');
    expect(end.steps).toHaveLength(2 * (end.commits + site.seen.requests));
    expect(site.seen.requests).toBeGreaterThanOrEqual(9);
    expect(end.commits).toBeGreaterThanOrEqual(2 * site.seen.requests);
    expect(await held(site, tasks)).toEqual(EXPECTED);
    expect(site.seen.refused).toBe(0);
    await site.close();
    steps = end.steps;
  });

  it.each(PARTS_OF_KILLS)('at a step loses nothing, doubles nothing and keeps both windows, part %d', async (part) => {
    expect(steps.length).toBeGreaterThan(0);
    const left = stepsToKillAt(steps).filter((_, index) => index % PARTS_OF_KILLS.length === part - 1);
    const survived: number[] = [];
    const work = async () => {
      for (let step = left.shift(); step !== undefined; step = left.shift()) {
        if (!(await survive(step))) survived.push(step);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    // Deliveries that come in close together may share a commit, and a slow run writes more often that it lives: another run can be
    // shorter than the counted one.
    expect(survived.filter((step) => step < steps.length / 2)).toEqual([]);
  });
});
