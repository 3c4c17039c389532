import { describe, expect, it } from 'vitest';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { UNKNOWN_GRACE, windowOf } from '../../../../src/model/windows.ts';
import { createPacing } from '../../../../src/workspace-api/client/pacing.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

const LONG = 900_000;
const BURST = 60_000;

function start() {
  const clock = createTravellingClock();
  const pacing = createPacing(clock, [windowOf(5, LONG), windowOf(2, BURST)]);
  const begun: { readonly name: number; readonly at: number }[] = [];
  /** @param takes milliseconds until the answer */
  const send = (name: number, takes = 0, signal?: AbortSignal) =>
    pacing.through(async () => {
      begun.push({ name, at: clock.monotonic() });
      if (takes > 0) await new Promise<void>((resolve) => void clock.after(takes, resolve));
      return name;
    }, signal);
  return { clock, pacing, begun, send, names: () => begun.map(({ name }) => name) };
}

describe('the pace of a client', () => {
  it('keeps within both windows, in the order of the calls', async () => {
    const { clock, begun, send } = start();
    const all = Promise.all(Array.from({ length: 11 }, (_, name) => send(name)));
    await clock.until(() => begun.length === 11);
    expect(await all).toEqual(begun.map(({ name }) => name));
    const most = (window: number) =>
      Math.max(...begun.map(({ at: from }) => begun.filter(({ at }) => at >= from && at < from + window).length));
    expect([most(LONG), most(BURST)]).toEqual([5, 2]);
    // Two windows of five and one request: the long window passed twice, and a little guard.
    expect(begun.at(-1)?.at).toBeLessThan(2 * LONG * 1.001);
  });

  it('counts a slot from the end of a request, and while its answer is awaited', async () => {
    const { clock, begun, send } = start();
    const first = [send(1, 100_000), send(2, 100_000), send(3)];
    await clock.advance(99_999);
    expect(begun.length).toBe(2);
    await clock.until(() => begun.length === 3);
    expect(begun[2]?.at).toBeGreaterThanOrEqual(100_000 + BURST);
    await Promise.all(first);
  });

  it('gives the slot back where nothing was sent, and counts a lost answer longer', async () => {
    const { clock, pacing, begun, send } = start();
    const failing = (code: 'unreachable' | 'outcome_unknown') =>
      pacing.through(() => Promise.reject(new SyncError(code, 'no answer'))).catch((error: SyncError) => error.code);
    for (let n = 0; n < 10; n++) expect(await failing('unreachable')).toBe('unreachable');
    expect([await failing('outcome_unknown'), await failing('outcome_unknown')]).toHaveLength(2);
    void send(1);
    await clock.until(() => begun.length === 1);
    expect(begun[0]?.at).toBeGreaterThan(BURST + UNKNOWN_GRACE);
  });

  it('lets a call that gave up go at once, and those behind it take its place', async () => {
    const { clock, send, names } = start();
    await Promise.all([send(1), send(2)]);
    const [head, middle] = [new AbortController(), new AbortController()];
    const waiting = [send(3, 0, head.signal), send(4, 0, middle.signal), send(5)];
    middle.abort();
    await expect(waiting[1]).rejects.toMatchObject({ code: 'aborted' });
    head.abort();
    await expect(waiting[0]).rejects.toMatchObject({ code: 'aborted' });
    await expect(send(6, 0, head.signal)).rejects.toMatchObject({ code: 'aborted' });
    await clock.until(() => names().length === 3);
    expect(names()).toEqual([1, 2, 5]);
  });

  it('begins nothing during a pause', async () => {
    const { clock, pacing, begun, send } = start();
    pacing.pause(20_000);
    pacing.pause(10_000);
    const sent = send(1);
    await clock.advance(19_999);
    expect(begun).toEqual([]);
    await clock.advance(1);
    expect(await sent).toBe(1);
  });
});
