import { expect, test } from 'vitest';
import { errorOfStatus, LONGEST_DICTATED_WAIT, retryAfter } from '../../../../src/platform/http/provider-errors.ts';

const NOW = Date.UTC(2026, 0, 5, 9);

test.each([
  ['90', 90_000],
  ['3600', LONGEST_DICTATED_WAIT],
  ['3601', LONGEST_DICTATED_WAIT],
  ['9'.repeat(400), LONGEST_DICTATED_WAIT],
  ['Mon, 05 Jan 2026 09:02:00 GMT', 120_000],
  ['Fri, 01 Jan 2100 00:00:00 GMT', LONGEST_DICTATED_WAIT],
  ['Mon, 05 Jan 2026 08:00:00 GMT', 0],
  ['-5', undefined],
  ['soon', undefined],
])('Retry-After %s asks for %s', (value, expected) => {
  expect(retryAfter({ 'retry-after': value }, NOW)).toBe(expected);
});

test('an error of any status has a bounded wait', () => {
  const error = errorOfStatus({ status: 503, headers: { 'retry-after': '99999999' } }, 'GET /x', NOW);
  expect(error.retryAfter).toBe(LONGEST_DICTATED_WAIT);
});
