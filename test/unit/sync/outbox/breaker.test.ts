import { expect, test } from 'vitest';
import { createBreaker, isWorkspaceRefusal, PROBE_EVERY } from '../../../../src/sync/outbox/breaker.ts';
import { failed } from '../../../support/rows/in-flight.ts';

/** The results of requests in their order, each with its change: `+` success, `-` failure. */
type Results = readonly `${'+' | '-'}${string}`[];

function after(results: Results) {
  const breaker = createBreaker();
  for (const result of results) breaker[result.startsWith('+') ? 'passed' : 'failed'](result.slice(1));
  return breaker;
}

test.each<[what: string, results: Results, failing: boolean, open: boolean]>([
  ['no request', [], false, false],
  ['two failures of two changes', ['-a', '-b'], false, false],
  ['three failures of two changes', ['-a', '-b', '-a'], true, true],
  ['three failures of one change', ['-a', '-a', '-a'], true, false],
  ['failures of one change and then of another', ['-a', '-a', '-a', '-b'], true, true],
  ['a success', ['-a', '-b', '-c', '+d'], false, false],
  ['a success and two failures', ['-a', '-b', '-c', '+d', '-e', '-f'], false, false],
  ['a success and three failures of one change', ['-a', '-b', '+d', '-a', '-a', '-a'], true, false],
])('after %s', (_what, results, failing, open) => {
  const breaker = after(results);
  expect([breaker.failing, breaker.open, breaker.pause()]).toEqual([failing, open, open ? PROBE_EVERY : 0]);
});

test.each<[what: string, results: Results, isAtFault: boolean]>([
  ['has never failed', ['+b'], false],
  ['fails while no request succeeds', ['+b', '-a', '-c', '-a'], false],
  ['fails while another succeeds', ['-a', '+b', '-a'], true],
  ['fails once before another succeeds', ['-a', '+b'], true],
  ['succeeded and fails again', ['-a', '+b', '+a', '-a'], false],
])('a change that %s is at fault: %s', (_what, results, isAtFault) => {
  expect(after(results).isAtFault('a')).toBe(isAtFault);
});

test.each<[status: number | undefined, errorCode: string | undefined, isOwn: boolean]>([
  [400, 'validation_failed', true],
  [499, 'validation_failed', true],
  [500, 'internal', false],
  [400, undefined, false],
  [undefined, 'internal', false],
])('status %s with code %s is a refusal by the workspace itself: %s', (status, errorCode, isOwn) => {
  expect(isWorkspaceRefusal(failed('refused', status, errorCode))).toBe(isOwn);
});
