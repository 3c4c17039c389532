import { describe, expect, it } from 'vitest';
import { createKeyHorizon } from '../../../../src/sync/reconcile/context.ts';

const CACHED = ['BUG-3', 'BUG-12', 'BUG-7', 'OPS-2', 'A1-5'];

describe('an unknown key may be a new task', () => {
  it.each<[key: string, cached: string[], expected: boolean]>([
    ['BUG-13', CACHED, true],
    ['BUG-999999999', CACHED, true],
    ['BUG-12', CACHED, false],
    ['BUG-11', CACHED, false],
    ['BUG-1', CACHED, false],
    ['OPS-3', CACHED, true],
    ['OPS-1', CACHED, false],
    ['A1-6', CACHED, true],
    // The workspace's own kinds count before their first task; other prefixes count only after it.
    ['IDEA-1', CACHED, true],
    ['BUG-1', [], true],
    ['IDEA-7', [], true],
    ['OPS-1', [], false],
    ['UTF-8', CACHED, false],
    ['CVE-2026', CACHED, false],
    ['BUGS-99', CACHED, false],
    ['A-9', CACHED, false],
  ])('%s with the cached keys %j: %s', (key, cached, expected) => {
    expect(createKeyHorizon(cached).mayBeNew(key)).toBe(expected);
  });

  it('does not change after its creation', () => {
    const cached = ['BUG-1'];
    const horizon = createKeyHorizon(cached);
    cached.push('BUG-50');
    expect(horizon.mayBeNew('BUG-2')).toBe(true);
  });
});
