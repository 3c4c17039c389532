import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CODES, type ErrorCode } from '../../../../src/model/errors/codes.ts';
import { asSyncError, cleanErrorsWith, SyncError } from '../../../../src/model/errors/sync-error.ts';

describe.each(Object.keys(CODES) as ErrorCode[])('%s', (code) => {
  const entry: { verdict: string; hint: string; exit?: number } = CODES[code];

  it('is a stable word with a verdict, a hint in one sentence, and an exit code that tells failure', () => {
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/);
    expect(['retry', 'wait-until', 'never']).toContain(entry.verdict);
    expect(entry.hint).toMatch(/^[A-Z].{10,}\.$/);
    expect(entry.exit ?? 1).toBeGreaterThan(0);
    expect(entry.exit ?? 1).toBeLessThan(126);
  });

  it('gives them to its errors', () => {
    const error = new SyncError(code, 'why');
    expect(error).toMatchObject({ name: 'SyncError', code, message: 'why', verdict: entry.verdict, hint: entry.hint });
  });
});

describe('a SyncError', () => {
  it('carries what the other side said, and the cause', () => {
    const cause = new Error('socket hang up');
    const details = { cause, status: 429, errorCode: 'rate_limited', retryAfter: 3_000, hint: 'Wait.' };
    const error = new SyncError('rate_limited', 'too many', details);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject(details);
  });

  it('without details has no cause, not an undefined one', () => {
    expect(Object.hasOwn(new SyncError('internal', 'x'), 'cause')).toBe(false);
  });
});

describe('secrets', () => {
  const SECRET = 'a secret of the tests';
  beforeAll(() => cleanErrorsWith((text) => text.replaceAll(SECRET, '[secret]')));
  afterAll(() => cleanErrorsWith((text) => text));

  it('are in none of the texts of an error, nor in its stack', () => {
    const text = `said: ${SECRET}`;
    const error = new SyncError('refused', text, { hint: text, errorCode: text });
    expect(error).toMatchObject({ message: 'said: [secret]', hint: 'said: [secret]', errorCode: 'said: [secret]' });
    expect(inspect(error)).not.toContain(SECRET);
    expect(asSyncError(new TypeError(text)).message).toBe('said: [secret]');
    expect(asSyncError(text).message).toBe('said: [secret]');
  });

  it('are in none of its causes, however deep', () => {
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

  it('leave a cause as it is that holds none, also one that loops', () => {
    const cause = new Error('harmless', { cause: new Error('too') });
    expect(new SyncError('internal', 'x', { cause }).cause).toBe(cause);
    const loop = new Error('round');
    loop.cause = loop;
    expect(() => new SyncError('internal', 'x', { cause: loop })).not.toThrow();
  });
});

describe('anything thrown', () => {
  it('stays as it is where it is a SyncError', () => {
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
  ])('%o is a fault of ours', (thrown, message) => {
    const error = asSyncError(thrown);
    expect(error).toMatchObject({ code: 'internal', verdict: 'retry', message });
    expect(error.cause).toBe(thrown);
  });
});
