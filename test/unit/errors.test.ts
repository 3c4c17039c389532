import { describe, expect, it } from 'vitest';
import { CODES, type ErrorCode } from '../../src/errors/codes.ts';
import { asSyncError, SyncError } from '../../src/errors/sync-error.ts';

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
