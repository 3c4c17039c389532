import { describe, expect, test } from 'vitest';
import type { PollSchedule } from '../../src/intake/active-connection.ts';
import { repeat } from '../../src/intake/schedule.ts';
import type { Random } from '../../src/lib/random.ts';
import { systemRandom } from '../../src/lib/random.ts';
import { createTravellingClock } from '../support/travelling-clock.ts';

const MINUTE = 60_000;

function fixed(float: number): Random {
  return { ...systemRandom(), float: () => float };
}

async function momentsOf(schedule: PollSchedule, length: number, start: string, float = 0.5): Promise<string[]> {
  const clock = createTravellingClock({ start: Date.parse(start) });
  const moments: string[] = [];
  const cancel = repeat(schedule, clock, fixed(float), () => moments.push(new Date(clock.now()).toISOString()));
  await clock.advance(length);
  cancel();
  expect(clock.pending).toBe(0);
  return moments;
}

describe('an interval', () => {
  test.each([
    [0, 0.9],
    [0.5, 1],
    [1, 1.1],
  ])('with chance %d comes after %d of its length', async (float, share) => {
    const start = Date.parse('2026-01-01T00:00:00Z');
    const moments = await momentsOf({ everyMs: 10 * MINUTE }, 12 * MINUTE, '2026-01-01T00:00:00Z', float);
    expect(Date.parse(moments[0] as string) - start).toBe(10 * MINUTE * share);
  });
});

describe('an interval that goes on from before', () => {
  test.each<[string, number, number]>([
    ['has the rest of it left', 4, 6],
    ['is over at once where it has passed', 25, 0],
    ['is whole where the clock was set back', -5, 10],
  ])('%s', async (_name, ago, minutes) => {
    const clock = createTravellingClock();
    const start = clock.now();
    const moments: number[] = [];
    const call = () => void moments.push((clock.now() - start) / MINUTE);
    const cancel = repeat({ everyMs: 10 * MINUTE }, clock, fixed(0.5), call, start - ago * MINUTE);
    await clock.advance((minutes + 10) * MINUTE);
    cancel();
    expect(moments).toEqual([minutes, minutes + 10]);
  });
});

describe('a cron expression', () => {
  test.each<[string, string, number, string[]]>([
    [
      '*/15 * * * *',
      '2026-01-01T10:07:31Z',
      40 * MINUTE,
      ['2026-01-01T10:15:00.000Z', '2026-01-01T10:30:00.000Z', '2026-01-01T10:45:00.000Z'],
    ],
    ['0 3 * * 1', '2026-01-02T00:00:00Z', 7 * 24 * 60 * MINUTE, ['2026-01-05T03:00:00.000Z']],
    [
      '*/20 * * * * *',
      '2026-01-01T10:00:05Z',
      MINUTE,
      ['2026-01-01T10:00:20.000Z', '2026-01-01T10:00:40.000Z', '2026-01-01T10:01:00.000Z'],
    ],
  ])('%s', async (cron, start, length, expected) => {
    expect(await momentsOf({ cron }, length, start)).toEqual(expected);
  });

  test('notices within a minute that the wall clock was set anew', async () => {
    const clock = createTravellingClock({ start: Date.parse('2026-01-01T10:00:00Z') });
    let calls = 0;
    const cancel = repeat({ cron: '0 * * * *' }, clock, fixed(0), () => void calls++);
    clock.jumpWall(55 * MINUTE);
    await clock.advance(6 * MINUTE);
    expect(calls).toBe(1);
    cancel();
  });
});

test('off never calls', async () => {
  expect(await momentsOf('off', 1_000 * MINUTE, '2026-01-01T00:00:00Z')).toEqual([]);
});

test('a call that cancels its own schedule is the last one', async () => {
  const clock = createTravellingClock();
  let calls = 0;
  const cancel = repeat({ everyMs: MINUTE }, clock, fixed(0), () => {
    calls++;
    cancel();
  });
  await clock.advance(10 * MINUTE);
  expect(calls).toBe(1);
  expect(clock.pending).toBe(0);
});
