import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemRandom } from '../../../../src/platform/lib/clock.ts';
import { parseCron } from '../../../../src/platform/lib/cron.ts';
import { createScheduler, type Job, phaseOf, type Schedule } from '../../../../src/platform/lib/scheduler.ts';
import { silentLogger } from '../../../../src/platform/lib/telemetry.ts';
import { createRunMemory, EVEN, startJobs } from '../../../support/fakes/timetable.ts';
import { createTravellingClock, type TravellingClock } from '../../../support/fakes/travelling-clock.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** A job that writes down when it began, in minutes since the clock was made; a run takes `takes` milliseconds. */
function noted(clock: TravellingClock, when: Schedule, parts: Partial<Job> & { readonly takes?: number } = {}) {
  const begun: number[] = [];
  const { takes = 0, ...rest } = parts;
  const job: Job = {
    name: 'work',
    when,
    async run() {
      begun.push(clock.elapsed() / MINUTE);
      if (takes > 0) await new Promise<void>((resolve) => void clock.after(takes, resolve));
    },
    ...rest,
  };
  return { job, begun };
}

describe('an interval', () => {
  test.each([
    [0, 0.9],
    [1, 1.1],
  ])('with chance %d is %d of its length', async (float, share) => {
    const clock = createTravellingClock();
    const { job, begun } = noted(clock, { everyMs: 10 * MINUTE }, { atStart: 0 });
    const random = { ...systemRandom(), float: () => float };
    const timetable = createScheduler({ clock, random }).open([job], createRunMemory(), silentLogger);
    timetable.start();
    await clock.advance(12 * MINUTE);
    await timetable.stop();
    expect(begun).toEqual([0, 10 * share]);
    expect(clock.pending).toBe(0);
  });

  test('of a run that takes longer than it leaves moments out, and never runs twice at once', async () => {
    const clock = createTravellingClock();
    const { job, begun } = noted(clock, { everyMs: 10 * MINUTE }, { takes: 12 * MINUTE });
    const timetable = startJobs([job], clock);
    await clock.advance(60 * MINUTE);
    expect(begun).toEqual([5, 27, 49]);
    await clock.advance(MINUTE);
    await timetable.stop();
  });

  test.each<[string, number | undefined, number]>([
    ['has the rest of it left', 4, 6],
    ['is over at once where it has passed', 25, 0],
    ['is whole where the last run lies ahead of the clock', -5, 10],
    ['that never ran ends at a random part of it', undefined, 5],
  ])('that goes on over a restart %s', async (_name, ago, minutes) => {
    const clock = createTravellingClock();
    const { job, begun } = noted(clock, { everyMs: 10 * MINUTE });
    const memory = createRunMemory(ago === undefined ? new Map() : new Map([['work', clock.now() - ago * MINUTE]]));
    const timetable = startJobs([job], clock, memory);
    await clock.advance((minutes + 10) * MINUTE);
    await timetable.stop();
    expect(begun).toEqual([minutes, minutes + 10]);
    expect(memory.runs.get('work')).toBe(clock.now());
  });
});

describe('a cron expression', () => {
  test.each<[cron: string, length: number, moments: string]>([
    ['*/15 * * * *', 40 * MINUTE, '10:15:00 10:30:00 10:45:00'],
    ['*/20 * * * * *', MINUTE, '10:07:40 10:08:00 10:08:20'],
  ])('%s runs a job at its moments', async (cron, length, moments) => {
    const start = Date.parse('2026-01-01T10:07:31Z');
    const clock = createTravellingClock({ start });
    const { job, begun } = noted(clock, { cron });
    const timetable = startJobs([job], clock);
    await clock.advance(length);
    await timetable.stop();
    const times = begun.map((minutes) => new Date(start + minutes * MINUTE).toISOString().slice(11, 19));
    expect([times.join(' '), clock.pending]).toEqual([moments, 0]);
  });

  const NIGHTLY = { cron: '0 3 * * *' };
  const atTwo = () => createTravellingClock({ start: Date.parse('2026-01-01T02:00:00Z') });

  test('of a moment at which nothing ran is made up for at the next start, once', async () => {
    const clock = atTwo();
    const { job, begun } = noted(clock, NIGHTLY);
    const memory = createRunMemory();
    for (let day = 0; day < 3; day++) {
      const timetable = startJobs([job], clock, memory);
      await clock.advance(59 * MINUTE);
      await timetable.stop();
      await clock.advance(2 * MINUTE);
      const next = startJobs([job], clock, memory);
      await clock.advance(22 * HOUR + 59 * MINUTE);
      await next.stop();
    }
    expect(begun).toEqual([61, 61 + 24 * 60, 61 + 48 * 60]);
  });

  test.each([
    ['ahead', 50 * MINUTE, 10],
    ['back', -30 * MINUTE, 90],
  ])('is kept though the wall clock was set %s', async (_name, jump, minutes) => {
    const clock = atTwo();
    const { job, begun } = noted(clock, NIGHTLY);
    const timetable = startJobs([job], clock);
    await clock.advance(0);
    clock.jumpWall(jump);
    await clock.advance(3 * HOUR);
    await timetable.stop();
    expect(begun).toEqual([minutes]);
  });

  test('runs once for each moment though timers are early and the clocks drift apart', async () => {
    const clock = atTwo();
    // Timers come 3 % early, as of a monotonic clock that goes faster than the wall clock.
    const hasty = { ...clock, after: (ms: number, call: () => void) => clock.after(ms * 0.97, call) };
    const { job, begun } = noted(clock, { cron: '*/10 * * * *' });
    const timetable = startJobs([job], hasty);
    await clock.advance(HOUR);
    await timetable.stop();
    expect(begun.map(Math.floor)).toEqual([10, 20, 30, 40, 50, 60]);
  });

  test('is read as node-cron reads it, in the order of its fields', () => {
    const right = ['0 0 1,15 jan-jun 7', '5/10 * * * *', '@daily', '0 0 ? * mon-sun', '0 0 * 2 1#5'];
    const wrong = ['0 0 31 2 *', '61 * * * *', '* * * *', '@hasty', '', '0 22-4 * * *', '*/70 * * * *', '0 0 * * sun1'];
    expect(right.filter((text) => parseCron(text) === undefined)).toEqual([]);
    expect(wrong.filter((text) => parseCron(text) !== undefined)).toEqual([]);
  });

  /** Compares the moments after a start. */
  function expectNext(text: string, start: string, moments: string): void {
    const found: string[] = [];
    for (let at = Date.parse(start); found.length < moments.split(' ').length; ) {
      at = parseCron(text)?.after(at) ?? Number.NaN;
      found.push(new Date(at).toISOString().slice(0, 16));
    }
    expect(found.join(' ')).toBe(moments);
  }

  test.each<[what: string, text: string, moments: string]>([
    ['is found over a century without a leap day', '0 0 * 2 1#5', '2044-02-29T00:00 2072-02-29T00:00 2112-02-29T00:00'],
    ['is of the month or of the week', '0 0 1,15 * 7', '2026-06-07T00:00 2026-06-14T00:00 2026-06-15T00:00'],
    ['is the last Friday', '0 0 * * 5L', '2026-06-26T00:00 2026-07-31T00:00'],
  ])('the moment %s: %s', (_what, text, moments) => expectNext(text, '2026-06-01T00:00:00Z', moments));

  // There the clocks go ahead on 29 March 2026 at 01:00Z, and back on 25 October at 01:00Z.
  describe('in Berlin', () => {
    const before = process.env.TZ;
    beforeAll(() => void (process.env.TZ = 'Europe/Berlin'));
    afterAll(() => void (process.env.TZ = before));

    test.each<[what: string, text: string, start: string, moments: string]>([
      ['a nightly moment that is left out comes an hour later', '30 2 * * *', '03-28T12:00', '03-29T01:30 03-30T00:30'],
      [
        'a nightly moment of an hour that comes twice comes once',
        '30 2 * * *',
        '10-24T12:00',
        '10-25T00:30 10-26T01:30',
      ],
      [
        'half hours go on where an hour is left out',
        '*/30 * * * *',
        '03-29T00:10',
        '03-29T00:30 03-29T01:00 03-29T01:30',
      ],
    ])('%s: %s', (_what, text, start, moments) => {
      expectNext(text, `2026-${start}:00Z`, moments.replaceAll(/^| /g, ' 2026-').trim());
    });
  });
});

describe('a timetable', () => {
  test('keeps one timer, and begins what is due together one after the other', async () => {
    const clock = createTravellingClock();
    const scheduler = createScheduler({ clock, random: EVEN });
    const order: string[] = [];
    const tables = ['a', 'b', 'c'].map((name) => {
      const run = async () => void order.push(`${name} ${clock.elapsed()}`);
      const jobs = [{ name: 'poll', when: { everyMs: HOUR }, atStart: 0, run }];
      return scheduler.open(jobs, createRunMemory(), silentLogger);
    });
    for (const table of tables) table.start();
    await clock.advance(500);
    expect(order).toEqual(['a 0', 'b 50', 'c 100']);
    expect(clock.pending).toBe(1);
    await tables[0]?.stop();
    await clock.advance(HOUR);
    expect(order.slice(3).map((each) => each.slice(0, 1))).toEqual(['b', 'c']);
    for (const table of tables) await table.stop();
    expect(clock.pending).toBe(0);
  });

  test('that is stopped tells its runs to end, waits for them, and counts none of them', async () => {
    const clock = createTravellingClock();
    const memory = createRunMemory(new Map([['work', 1]]));
    let ended = false;
    const run = (signal: AbortSignal) =>
      new Promise<void>((resolve) => {
        signal.addEventListener('abort', () => {
          ended = true;
          resolve();
        });
      });
    const timetable = startJobs([{ name: 'work', when: { everyMs: HOUR }, run }], clock, memory);
    await clock.advance(0);
    await timetable.stop();
    expect(ended).toBe(true);
    expect(memory.runs).toEqual(new Map([['work', 1]]));
    expect(clock.pending).toBe(0);
  });

  test('runs a job at once when told to, also one that is off, and joins the run in hand', async () => {
    const clock = createTravellingClock();
    const often = noted(clock, { everyMs: HOUR }, { takes: MINUTE });
    const off = noted(clock, 'off', { name: 'off' });
    const timetable = startJobs([often.job, off.job], clock);
    await clock.advance(10 * MINUTE);
    const both = [timetable.runNow('work'), timetable.runNow('work'), timetable.runNow('off')];
    await clock.advance(61 * MINUTE);
    await Promise.all(both);
    expect(often.begun).toEqual([10, 70]);
    expect(off.begun).toEqual([10]);
    await expect(timetable.runNow('unknown')).rejects.toThrow('there is no job unknown');
    await clock.advance(0);
    await timetable.stop();
  });
});

test('a timetable goes on after a job that fails and a memory that cannot be read or written', async () => {
  const clock = createTravellingClock();
  const begun: number[] = [];
  const fails = () => Promise.reject(new Error('no space left'));
  const run = async () => {
    begun.push(clock.elapsed() / MINUTE);
    throw new Error('a fault');
  };
  const jobs = [{ name: 'work', when: { everyMs: 10 * MINUTE }, run }];
  const timetable = startJobs(jobs, clock, { read: fails, replace: fails, note: fails });
  await clock.advance(30 * MINUTE);
  await timetable.stop();
  expect(begun).toEqual([5, 15, 25]);
});

test('what many workspaces would do at once after a start is spread over minutes, by one timer', async () => {
  const clock = createTravellingClock();
  const scheduler = createScheduler({ clock, random: EVEN });
  const [count, names] = [2_000, ['poll', 'hooks', 'sweep']];
  const begun = new Map(names.map((name) => [name, [] as number[]]));
  const run = (name: string) => async () => void begun.get(name)?.push(clock.elapsed());
  // A poll and a look at hooks after each start, and a sweep that is long overdue.
  const jobs: Job[] = [
    { name: 'poll', when: { everyMs: 15 * MINUTE }, atStart: 0, run: run('poll') },
    { name: 'hooks', when: { everyMs: HOUR }, atStart: 10 * SECOND, run: run('hooks') },
    { name: 'sweep', when: { everyMs: 24 * HOUR }, run: run('sweep') },
  ];
  const tables = Array.from({ length: count }, (_, index) => {
    const memory = createRunMemory(new Map([['sweep', clock.now() - 48 * HOUR]]));
    return scheduler.open(jobs, memory, silentLogger, phaseOf(index + 1));
  });
  for (const table of tables) table.start();
  await clock.advance(0);
  expect([...begun.values()].flat().length).toBeLessThanOrEqual(1);
  expect(clock.pending).toBe(1);
  await clock.advance(6 * MINUTE);
  for (const moments of begun.values()) {
    expect(moments).toHaveLength(count);
    const within = moments.map((from) => moments.filter((at) => at >= from && at < from + 10 * SECOND).length);
    expect(Math.max(...within)).toBeLessThanOrEqual((count / 30) * 1.1);
  }
  await Promise.all(tables.map((table) => table.stop()));
});
