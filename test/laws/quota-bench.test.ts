import { expect, it } from 'vitest';
import { daysOf, TUNING } from '../bench/quota/days.ts';
import { play } from '../bench/quota/play.ts';
import { eventLines, eventsOf } from '../bench/quota/references/trace.ts';

it('the quota bench plays a part of a day to its end: every item is written, and requests are merged', async () => {
  const lines = eventLines(daysOf(TUNING, 0.7)[0]!).slice(0, 300);
  const { server } = await play({ lines, straight: true });
  const events = eventsOf(lines);
  expect(new Set(server.writes.map(({ item }) => item))).toEqual(new Set(events.map(({ item }) => item)));
  expect(server.writes.length).toBeLessThan(events.length);
  expect(server.refused).toBe(0);
});
