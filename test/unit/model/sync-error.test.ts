import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CODES } from '../../../src/model/errors/codes.ts';
import {
  asSyncError,
  cleanErrorsWith,
  formatFailure,
  parseFailure,
  SyncError,
} from '../../../src/model/errors/sync-error.ts';

it('each code has a verdict, a remedy in a sentence, and an exit code that means failure', () => {
  for (const [code, { verdict, hint, ...entry }] of Object.entries(CODES)) {
    const exit = 'exit' in entry ? entry.exit : 1;
    expect({ code, verdict, hint, isFailure: exit > 0 && exit < 126 }).toEqual({
      code: expect.stringMatching(/^[a-z]+(_[a-z]+)*$/),
      verdict: expect.stringMatching(/^(?:retry|wait-until|never)$/),
      hint: expect.stringMatching(/^[A-Z][^\n]{10,}\.$/),
      isFailure: true,
    });
  }
});

describe('secrets', () => {
  const SECRET = 'a secret of the tests';
  beforeAll(() => cleanErrorsWith((text) => text.replaceAll(SECRET, '[secret]')));
  afterAll(() => cleanErrorsWith((text) => text));

  it('are replaced in all texts of an error, and in its stack', () => {
    const text = `said: ${SECRET}`;
    const error = new SyncError('refused', text, { hint: text, errorCode: text });
    expect(error).toMatchObject({ message: 'said: [secret]', hint: 'said: [secret]', errorCode: 'said: [secret]' });
    expect(inspect(error)).not.toContain(SECRET);
    expect(asSyncError(new TypeError(text)).message).toBe('said: [secret]');
    expect(asSyncError(text).message).toBe('said: [secret]');
  });

  it('are replaced in all causes, however deep', () => {
    const inner = Object.assign(new TypeError(SECRET), { code: 'ERR_INNER', headers: { authorization: SECRET } });
    const several = new AggregateError([new Error('harmless'), new RangeError(SECRET)], 'several', { cause: inner });
    const outer = new Error('outer', { cause: several });
    const { cause } = new SyncError('unreachable', 'x', { cause: outer });
    expect(inspect(cause, { depth: 20, showHidden: true })).not.toContain(SECRET);
    expect(cause).toMatchObject({
      message: 'outer',
      cause: { message: 'several', cause: { name: 'TypeError', code: 'ERR_INNER', message: '[secret]' } },
    });
    expect((cause as Error & { cause: AggregateError }).cause.errors).toMatchObject([
      { message: 'harmless' },
      { name: 'RangeError', message: '[secret]' },
    ]);
    let deep = new Error(SECRET);
    for (let level = 0; level < 20; level++) deep = new Error('level', { cause: deep });
    expect(inspect(new SyncError('internal', 'x', { cause: deep }), { depth: 50 })).not.toContain(SECRET);
    expect(new SyncError('internal', 'x', { cause: SECRET }).cause).toBe('[secret]');
  });

  it('leave a cause without secrets unchanged, even a cycle', () => {
    const cause = new Error('harmless', { cause: new Error('too') });
    expect(new SyncError('internal', 'x', { cause }).cause).toBe(cause);
    const loop = new Error('round');
    loop.cause = loop;
    expect(() => new SyncError('internal', 'x', { cause: loop })).not.toThrow();
  });
});

describe('a thrown value', () => {
  it('is returned unchanged if it is a SyncError', () => {
    const error = new SyncError('conflict', 'x');
    expect(asSyncError(error)).toBe(error);
  });

  it.each<[thrown: unknown, message: string]>([
    [new TypeError('x is no function'), 'x is no function'],
    ['a text', 'a text'],
    [undefined, 'undefined'],
    [null, 'null'],
    [7, '7'],
    [{ odd: true }, '{ odd: true }'],
    [Object.create(null), '[Object: null prototype] {}'],
    [Symbol('s'), 'Symbol(s)'],
  ])('%o is an internal error', (thrown, message) => {
    const error = asSyncError(thrown);
    expect(error).toMatchObject({ code: 'internal', verdict: 'retry', message });
    expect(error.cause).toBe(thrown);
  });
});

it('a stored failure keeps its remedy', () => {
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

it.each(['no code at all', 'unheard_of: x', 'constructor: x'])('%j is parsed as an internal error', (text) => {
  expect(parseFailure(text)).toEqual({ code: 'internal', message: text, hint: null });
});
