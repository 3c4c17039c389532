import fc from 'fast-check';
import { expect, test } from 'vitest';
import { systemRandom } from '../../src/platform/lib/clock.ts';
import { createScheduler, type Job } from '../../src/platform/lib/scheduler.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import { createRunMemory } from '../support/fakes/timetable.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { drawn } from '../support/harness/depth.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const INTERVALS = [MINUTE, 15 * MINUTE, HOUR, DAY];
/** The time over which jobs are spread after a start. */
const SLACK = SECOND;

interface Life {
  /** How long the process lives, and how long nothing runs after it, milliseconds. */
  readonly up: number;
  readonly down: number;
  /** By how much the wall clock is set meanwhile. */
  readonly jump: number;
}

const life = fc.record({
  up: fc.integer({ min: 2 * SECOND, max: 40 * MINUTE }),
  down: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 0, max: MINUTE }) }, fc.integer({ min: 0, max: 2 * DAY })),
  jump: fc.constant(0),
});

/** Lives these, one after the other on one memory. @returns when each job ran, and when nothing could */
async function liveThrough(lives: readonly Life[], float: () => number) {
  const clock = createTravellingClock();
  const memory = createRunMemory();
  const random = { ...systemRandom(), float };
  const runs = INTERVALS.map(() => [] as number[]);
  const jobs = INTERVALS.map(
    (everyMs, at): Job => ({
      name: `every ${everyMs}`,
      when: { everyMs },
      run: async () => void runs[at]?.push(clock.elapsed()),
    }),
  );
  const off: { from: number; to: number }[] = [];
  for (const { up, down, jump } of lives) {
    clock.jumpWall(jump);
    const timetable = createScheduler({ clock, random }).open(jobs, memory, silentLogger);
    timetable.start();
    await clock.advance(up);
    await timetable.stop();
    const from = clock.elapsed();
    await clock.advance(down);
    off.push({ from, to: clock.elapsed() });
  }
  return { runs, off, end: clock.elapsed() };
}

/** Time within which nothing ran. */
function offWithin(off: readonly { from: number; to: number }[], from: number, to: number): number {
  return off.reduce((sum, each) => sum + Math.max(0, Math.min(each.to, to) - Math.max(each.from, from)), 0);
}

const chances = fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }));

test('whatever lives the process has, each interval is kept: never early, and late by no more than nothing ran', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(life, { minLength: 1, maxLength: 60 }), chances, async (lives, stream) => {
      const { runs, off, end } = await liveThrough(lives, () => stream.next().value);
      for (const [at, moments] of runs.entries()) {
        const everyMs = INTERVALS[at] as number;
        for (const [index, moment] of [...moments, end].entries()) {
          const before = moments[index - 1] ?? 0;
          const gap = moment - before;
          expect(gap).toBeLessThanOrEqual(1.1 * everyMs + offWithin(off, before, moment) + SLACK * (lives.length + 1));
          if (index > 0 && moment !== end) expect(gap).toBeGreaterThanOrEqual(0.9 * everyMs - SLACK);
        }
      }
    }),
    { numRuns: drawn(40) },
  );
});

test('a clock that is set while nothing runs costs at most one interval more each time, and takes none away for good', async () => {
  const jumping = fc.record({
    up: fc.constant(10 * MINUTE),
    down: fc.constant(0),
    jump: fc.integer({ min: -DAY, max: DAY }),
  });
  const steady = Array.from({ length: 14 }, () => ({ up: 10 * MINUTE, down: 0, jump: 0 }));
  await fc.assert(
    fc.asyncProperty(fc.array(jumping, { minLength: 1, maxLength: 6 }), chances, async (jumps, stream) => {
      const { runs, end } = await liveThrough([...jumps, ...steady], () => stream.next().value);
      const quiet = end - steady.length * 10 * MINUTE;
      for (const at of [0, 1, 2]) {
        const after = (runs[at] ?? []).filter((moment) => moment > quiet);
        expect((after[0] ?? end) - quiet).toBeLessThanOrEqual(1.1 * (INTERVALS[at] as number) + SLACK);
      }
    }),
    { numRuns: drawn(30) },
  );
});
