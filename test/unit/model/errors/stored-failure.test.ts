import { expect, test } from 'vitest';
import { CODES } from '../../../../src/model/errors/codes.ts';
import { readFailure, storedFailure } from '../../../../src/model/errors/stored-failure.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';

test('a stored failure is read with the remedy that it had', () => {
  const plain = new SyncError('forbidden', 'status 403');
  expect(storedFailure(plain)).toBe('forbidden: status 403');
  expect(readFailure(storedFailure(plain))).toEqual({
    code: 'forbidden',
    message: 'status 403',
    hint: CODES.forbidden.hint,
  });
  const own = new SyncError('forbidden', 'two\nlines', { hint: 'Authorise the token.' });
  expect(readFailure(storedFailure(own))).toEqual({
    code: 'forbidden',
    message: 'two\nlines',
    hint: 'Authorise the token.',
  });
});

test.each(['no code at all', 'unheard_of: x', 'constructor: x'])('%j is shown as it is', (text) => {
  expect(readFailure(text)).toEqual({ code: 'internal', message: text, hint: null });
});
