import { expect, test } from 'vitest';
import { silentLogger } from '../../../../src/platform/lib/logger.ts';
import { createScheduler, type Scheduler, type Timetable } from '../../../../src/platform/lib/scheduler.ts';
import { phaseOf } from '../../../../src/platform/lib/startup-jitter.ts';
import { createRunMemory, EVEN } from '../../../support/clocks/timetable.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/clocks/travelling-clock.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const WORKSPACES = 2_000;
const JOBS = ['poll', 'hooks', 'sweep'] as const;

interface Begun {
  readonly job: string;
  readonly at: number;
}

/** The timetable of one workspace: a poll and a look at hooks after each start, and a sweep that is long overdue. */
function openOne(scheduler: Scheduler, clock: TravellingClock, number: number, begun: Begun[]): Timetable {
  const run = (job: string) => async () => void begun.push({ job: `${job} ${number}`, at: clock.elapsed() });
  const jobs = [
    { name: 'poll', when: { everyMs: 15 * MINUTE }, atStart: 0, run: run('poll') },
    { name: 'hooks', when: { everyMs: HOUR }, atStart: 10 * SECOND, run: run('hooks') },
    { name: 'sweep', when: { everyMs: 24 * HOUR }, run: run('sweep') },
  ];
  const memory = createRunMemory(new Map([['sweep', clock.now() - 48 * HOUR]]));
  return scheduler.open(jobs, memory, silentLogger, phaseOf(number));
}

function startMany(count: number) {
  const clock = createTravellingClock();
  const scheduler = createScheduler({ clock, random: EVEN });
  const begun: Begun[] = [];
  const open = (number: number) => openOne(scheduler, clock, number, begun);
  const tables = Array.from({ length: count }, (_, index) => open(index + 1));
  for (const table of tables) table.start();
  const stop = async () => void (await Promise.all(tables.map((table) => table.stop())));
  return { clock, begun, open, stop };
}

function mostWithin(moments: readonly number[], length: number): number {
  const sorted = moments.toSorted((left, right) => left - right);
  return Math.max(...sorted.map((from, at) => sorted.slice(at).findIndex((moment) => moment >= from + length)));
}

test('what many workspaces would do at once after a start is spread over minutes, by one timer, and nobody is left out', async () => {
  const { clock, begun, stop } = startMany(WORKSPACES);
  await clock.advance(0);
  expect(begun.length).toBeLessThanOrEqual(1);
  expect(clock.pending).toBe(1);
  await clock.advance(6 * MINUTE);
  expect(new Set(begun.map(({ job }) => job)).size).toBe(WORKSPACES * JOBS.length);
  for (const job of JOBS) {
    const moments = begun.filter((each) => each.job.startsWith(job)).map(({ at }) => at);
    expect(mostWithin(moments, 10 * SECOND)).toBeLessThanOrEqual((WORKSPACES / 30) * 1.1);
  }
  await stop();
});

test('each keeps its place over restarts', async () => {
  const orders: string[][] = [];
  for (let start = 0; start < 2; start++) {
    const { clock, begun, stop } = startMany(20);
    await clock.advance(MINUTE);
    orders.push(begun.map(({ job }) => job));
    await stop();
  }
  expect(orders[1]).toEqual(orders[0]);
});

test('a lone workspace starts at once, also where others have been running for a while', async () => {
  const alone = startMany(1);
  await alone.clock.advance(SECOND);
  expect(alone.begun.map(({ job }) => job)).toEqual(['poll 1', 'sweep 1']);
  await alone.stop();

  const { clock, begun, open, stop } = startMany(200);
  await clock.advance(10 * MINUTE);
  begun.length = 0;
  const late = open(777);
  late.start();
  await clock.advance(SECOND);
  expect(begun.map(({ job }) => job)).toEqual(expect.arrayContaining(['poll 777', 'sweep 777']));
  await late.stop();
  await stop();
});

test('nobody waits for longer than half an interval', async () => {
  const clock = createTravellingClock();
  const scheduler = createScheduler({ clock, random: EVEN });
  const begun: number[] = [];
  const tables = Array.from({ length: 1_000 }, (_, index) => {
    const run = async () => void begun.push(clock.elapsed());
    const jobs = index === 0 ? [{ name: 'poll', when: { everyMs: MINUTE }, atStart: 0, run }] : [];
    return scheduler.open(jobs, createRunMemory(), silentLogger, 0.99);
  });
  for (const table of tables) table.start();
  await clock.advance(2 * MINUTE);
  expect(begun[0]).toBeCloseTo(0.99 * 30 * SECOND);
  await Promise.all(tables.map((table) => table.stop()));
});

test('numbers that follow each other lie far apart', () => {
  const phases = Array.from({ length: 100 }, (_, index) => phaseOf(index + 1)).toSorted((left, right) => left - right);
  const gaps = phases.slice(1).map((phase, index) => phase - (phases[index] as number));
  expect(Math.max(...gaps)).toBeLessThan(0.03);
});
