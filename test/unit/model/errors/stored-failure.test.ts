import { expect, test } from 'vitest';
import { CODES } from '../../../../src/model/errors/codes.ts';
import { formatFailure, parseFailure, SyncError } from '../../../../src/model/errors/sync-error.ts';

test('a stored failure is read with the remedy that it had', () => {
  const plain = new SyncError('forbidden', 'status 403');
  expect(formatFailure(plain)).toBe('forbidden: status 403');
  expect(parseFailure(formatFailure(plain))).toEqual({
    code: 'forbidden',
    message: 'status 403',
    hint: CODES.forbidden.hint,
  });
  const own = new SyncError('forbidden', 'two\nlines', { hint: 'Authorise the token.' });
  expect(parseFailure(formatFailure(own))).toEqual({
    code: 'forbidden',
    message: 'two\nlines',
    hint: 'Authorise the token.',
  });
});

test.each(['no code at all', 'unheard_of: x', 'constructor: x'])('%j is shown as it is', (text) => {
  expect(parseFailure(text)).toEqual({ code: 'internal', message: text, hint: null });
});
