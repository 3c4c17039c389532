import { describe, expect, it } from 'vitest';
import { createExpiryReaper, createUnownedMonitor } from '../../../src/cluster/liveness.ts';

const TTL = 3_000;
const replica = (incarnation: string, expires_at: number) => ({
  id: incarnation,
  incarnation,
  address: '',
  about: '',
  expires_at,
});

/** A read of these rows that takes 10 ms. */
const read = (began: number, ...replicas: ReturnType<typeof replica>[]) => ({ began, ended: began + 10, replicas });

describe('the expiry reaper', () => {
  it('expires a process exactly one TTL after the end of the read that first returned its last renewal', () => {
    const reaper = createExpiryReaper(TTL);
    const expired = (...rows: Parameters<typeof read>) => reaper.expired(read(...rows)).map(({ id }) => id);
    expect(reaper.nextExpiry()).toBe(Number.POSITIVE_INFINITY);
    expect(expired(1_000, replica('a', 1), replica('b', 1))).toEqual([]);
    expect(reaper.nextExpiry()).toBe(1_010 + TTL);
    // Any other value is a renewal, also an earlier one.
    expect(expired(2_000, replica('a', 1), replica('b', 0))).toEqual([]);
    expect(expired(1_009 + TTL, replica('a', 1), replica('b', 0))).toEqual([]);
    expect(expired(1_010 + TTL, replica('a', 1), replica('b', 0))).toEqual(['a']);
    expect(expired(2_010 + TTL, replica('a', 1), replica('b', 0))).toEqual(['a', 'b']);
  });

  it('forgets a process whose row is gone, and treats it as new when the row returns', () => {
    const reaper = createExpiryReaper(TTL);
    reaper.expired(read(0, replica('a', 1)));
    reaper.expired(read(TTL - 500));
    expect(reaper.nextExpiry()).toBe(Number.POSITIVE_INFINITY);
    expect(reaper.expired(read(TTL + 500, replica('a', 1)))).toEqual([]);
    expect(reaper.nextExpiry()).toBe(TTL + 510 + TTL);
  });

  it('returns the expiry of the process with the oldest renewal', () => {
    const reaper = createExpiryReaper(TTL);
    reaper.expired(read(0, replica('a', 1), replica('b', 1)));
    reaper.expired(read(500, replica('a', 2), replica('b', 1)));
    expect(reaper.nextExpiry()).toBe(10 + TTL);
  });
});

describe('the monitor of unowned workspaces', () => {
  it('reports a workspace without an owner at two checks in a row, and not one that was acquired in between', () => {
    let now = 0;
    const monitor = createUnownedMonitor(() => now);
    expect(monitor.isDue()).toBe(false);
    now = 10_000;
    expect(monitor.isDue()).toBe(true);
    monitor.record([1, 2]);
    now = 19_999;
    expect([monitor.isDue(), monitor.unowned().size]).toEqual([false, 0]);
    now = 20_000;
    monitor.record([2, 3]);
    now = 21_000;
    expect([...monitor.unowned()]).toEqual([[2, 11_000]]);
    monitor.record([]);
    expect(monitor.unowned().size).toBe(0);
  });
});
