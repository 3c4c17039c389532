import { expect, test } from 'vitest';
import { createBreaker, isWorkspaceRefusal, PROBE_EVERY } from '../../../../src/sync/outbox/breaker.ts';
import { failed } from '../../../support/rows/in-flight.ts';

/** The results of requests in their order, each with its change: `+` write, `?` read, `-` failure. */
type Results = readonly `${'+' | '?' | '-'}${string}`[];

function after(results: Results) {
  const breaker = createBreaker();
  for (const [sign, ...name] of results) {
    const change = name.join('');
    if (sign === '-') breaker.failed(change);
    else breaker.passed(change, sign === '+');
  }
  return breaker;
}

test.each<[what: string, results: Results, failing: boolean, open: boolean]>([
  ['no request', [], false, false],
  ['two failures of two changes', ['-a', '-b'], false, false],
  ['three failures of two changes', ['-a', '-b', '-a'], true, true],
  ['three failures of one change', ['-a', '-a', '-a'], true, false],
  ['failures of one change and then of another', ['-a', '-a', '-a', '-b'], true, true],
  ['a success', ['-a', '-b', '-c', '+d'], false, false],
  ['the success of a read', ['-a', '-b', '-c', '?d'], false, false],
  ['a success and two failures', ['-a', '-b', '-c', '+d', '-e', '-f'], false, false],
  ['a success and three failures of one change', ['-a', '-b', '+d', '-a', '-a', '-a'], true, false],
])('after %s', (_what, results, failing, open) => {
  const breaker = after(results);
  expect([breaker.failing, breaker.open, breaker.pause()]).toEqual([failing, open, open ? PROBE_EVERY : 0]);
});

test.each<[what: string, results: Results, othersAnswered: boolean, othersWritten: boolean]>([
  ['it has never failed', ['+b'], false, false],
  ['it fails while no request succeeds', ['+b', '-a', '-c', '-a'], false, false],
  ['it fails while another read succeeds', ['-a', '?b', '-a'], true, false],
  ['it fails while another write succeeds', ['-a', '+b', '-a'], true, true],
  ['it fails once before another write succeeds', ['-a', '+b'], true, true],
  ['it succeeded and fails again', ['-a', '+b', '+a', '-a'], false, false],
])('reports what succeeded since a change first failed: %s', (_what, results, othersAnswered, othersWritten) => {
  expect(after(results).sinceFailure('a')).toMatchObject({ othersAnswered, othersWritten });
});

test.each<[what: string, results: Results, isAtFault: boolean]>([
  ['it fails while no request succeeds', ['+b', '-a', '-a'], false],
  ['it fails before and after another write succeeds', ['-a', '+b', '-a'], true],
  ['it fails before and after another read succeeds', ['-a', '?b', '-a'], false],
  ['other writes succeeded earlier, and none does now', ['-a', '+b', '-a', '-a'], false],
  ['another change that had failed succeeds too', ['-a', '-b', '+c', '+b', '-a'], false],
  ['another change that had failed succeeded earlier', ['-a', '-b', '+b', '-a', '+c', '-a'], true],
])('decides by the last failure whether a change is at fault: %s', (_what, results, isAtFault) => {
  expect(after(results).sinceFailure('a').isAtFault).toBe(isAtFault);
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
