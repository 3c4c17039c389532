import { expect, test } from 'vitest';
import { createBreaker, PROBE_EVERY } from '../../../../src/sync/outbox/breaker.ts';

/** Requests in their order, by their changes: `+` got through, `-` did not. */
type Course = readonly `${'+' | '-'}${string}`[];

function after(course: Course) {
  const breaker = createBreaker();
  for (const each of course) breaker[each.startsWith('+') ? 'passed' : 'failed'](each.slice(1));
  return breaker;
}

test.each<[what: string, course: Course, failing: boolean, open: boolean]>([
  ['nothing has been sent', [], false, false],
  ['two of two changes failed', ['-a', '-b'], false, false],
  ['three of two changes failed', ['-a', '-b', '-a'], true, true],
  ['three of one change failed', ['-a', '-a', '-a'], true, false],
  ['one that fails alone is joined by another', ['-a', '-a', '-a', '-b'], true, true],
  ['one got through', ['-a', '-b', '-c', '+d'], false, false],
  ['one got through, and the next fails', ['-a', '-b', '-c', '+d', '-e', '-f'], false, false],
  ['one got through, and one change fails from then on', ['-a', '-b', '+d', '-a', '-a', '-a'], true, false],
])('%s', (_what, course, failing, open) => {
  const breaker = after(course);
  expect([breaker.failing, breaker.open, breaker.pause()]).toEqual([failing, open, open ? PROBE_EVERY : 0]);
});

test.each<[what: string, course: Course, isAtFault: boolean]>([
  ['has never failed', ['+b'], false],
  ['fails while nothing gets through', ['+b', '-a', '-c', '-a'], false],
  ['fails while another gets through', ['-a', '+b', '-a'], true],
  ['fails once, and another gets through after that', ['-a', '+b'], true],
  ['got through, and fails anew', ['-a', '+b', '+a', '-a'], false],
])('a change that %s: at fault itself: %s', (_what, course, isAtFault) => {
  expect(after(course).isAtFault('a')).toBe(isAtFault);
});
