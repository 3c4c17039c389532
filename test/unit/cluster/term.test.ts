import { describe, expect, it, onTestFinished } from 'vitest';
import { createRenewals, createTerms } from '../../../src/cluster/term.ts';
import { type LogFields, silentLogger } from '../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { localTime, replicasOf } from '../../../src/store/leases.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

const TTL = 3_000;

/** @param early time by which the first timer fires too early, milliseconds */
async function openTerms(early = 0) {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const clock = createTravellingClock();
  const expirations: number[] = [];
  const times: number[] = [];
  let ahead = early;
  const terms = createTerms({
    query: installation.query,
    random: systemRandom(),
    elapsed: clock.elapsed,
    storeTime: localTime(clock),
    after(ms, call) {
      const cancel = clock.after(ms - ahead, call);
      ahead = 0;
      return cancel;
    },
    replica: () => ({ id: 'a', address: 'http://a', about: '{}' }),
    onTime: (now) => void times.push(now),
    onExpired: (workspaces) => void expirations.push(workspaces),
  });
  return { clock, terms, expirations, times, replicas: () => replicasOf(installation.query) };
}

describe('a term', () => {
  it('ends exactly when it is no longer trusted, also if its timer fires early', async () => {
    const { clock, terms, expirations } = await openTerms(10);
    const { term } = await terms.renew();
    term.owned.set(1, terms.createLease(term, 1, 1));
    term.leaving.set(2, terms.createLease(term, 2, 1));
    await clock.toNextTimer();
    expect([clock.elapsed(), terms.isTrusted(term), term.over.signal.aborted]).toEqual([TTL - 10, true, false]);
    await clock.toNextTimer();
    expect([clock.elapsed(), terms.isTrusted(term), term.over.signal.aborted]).toEqual([TTL, false, true]);
    expect(expirations).toEqual([2]);
    expect(clock.pending).toBe(0);
  });

  it('is trusted for one TTL from the start of its last renewal', async () => {
    const { clock, terms } = await openTerms();
    const { term } = await terms.renew();
    const lease = terms.createLease(term, 1, 1);
    await clock.advance(TTL - 1);
    expect((await terms.renew()).term).toBe(term);
    await clock.advance(TTL - 1);
    expect([lease.isTrusted(), lease.lost?.aborted]).toEqual([true, false]);
    await clock.advance(1);
    expect([lease.isTrusted(), lease.lost?.aborted]).toEqual([false, true]);
  });

  it('that is over is followed by another one, which owns nothing', async () => {
    const { clock, terms, times, replicas } = await openTerms();
    const first = (await terms.renew()).term;
    await clock.advance(TTL);
    const { term, replicas: returned } = await terms.renew();
    expect(term).toBe(terms.current);
    expect([terms.isTrusted(term), terms.isTrusted(first), term.owned.size]).toEqual([true, false, 0]);
    expect(term.incarnation).not.toBe(first.incarnation);
    expect((await replicas()).map(({ incarnation }) => incarnation)).toEqual([term.incarnation]);
    expect(returned).toEqual(await replicas());
    expect(times).toEqual([]);
    await terms.renew();
    expect(times).toEqual([clock.now()]);
  });

  it('trusts no closed lease, and no lease after its end', async () => {
    const { terms } = await openTerms();
    const { term } = await terms.renew();
    const [closed, other] = [terms.createLease(term, 1, 1), terms.createLease(term, 2, 1)];
    closed.isClosed = true;
    expect([closed.isTrusted(), other.isTrusted()]).toEqual([false, true]);
    terms.end(term);
    expect([other.isTrusted(), other.lost?.aborted]).toEqual([false, true]);
  });
});

const PAUSE = 500;
const RETRY = 2 * PAUSE;

/** Renewals that end when the test says so. */
function openRenewals() {
  const clock = createTravellingClock();
  const running: PromiseWithResolvers<void>[] = [];
  const begun: number[] = [];
  const errors: LogFields[] = [];
  const renewals = createRenewals({
    renew() {
      begun.push(clock.elapsed());
      const renewal = Promise.withResolvers<void>();
      running.push(renewal);
      return renewal.promise;
    },
    pause: () => PAUSE,
    retryPause: RETRY,
    after: clock.after,
    logger: { ...silentLogger, error: (fields) => void errors.push(fields) },
  });
  return { clock, renewals, begun, errors, end: () => running.shift()?.resolve(), running };
}

describe('renewals', () => {
  it('begin one pause after the previous one or on request, and never overlap', async () => {
    const { clock, renewals, begun, end } = openRenewals();
    void renewals.now();
    await clock.advance(10 * PAUSE);
    end();
    await clock.advance(PAUSE);
    expect(begun).toEqual([0, 11 * PAUSE]);
    void renewals.now();
    await clock.advance(100);
    expect(begun).toHaveLength(2);
    end();
    await clock.advance(0);
    expect(begun).toEqual([0, 11 * PAUSE, 11 * PAUSE + 100]);
    // The pause counts from the requested renewal.
    end();
    await clock.advance(PAUSE);
    expect(begun.slice(3)).toEqual([12 * PAUSE + 100]);
  });

  it('log a failure and are repeated after the retry pause', async () => {
    const { clock, renewals, begun, errors, running } = openRenewals();
    const requested = renewals.now();
    await clock.advance(0);
    const error = new Error('away');
    running.shift()?.reject(error);
    await requested;
    expect(errors).toEqual([{ error }]);
    await clock.advance(RETRY);
    expect(begun).toEqual([0, RETRY]);
  });

  it('stop after the running one has ended, and none begins later', async () => {
    const { clock, renewals, begun, end } = openRenewals();
    void renewals.now();
    await clock.advance(0);
    let isStopped = false;
    const stopped = renewals.stop().then(() => {
      isStopped = true;
    });
    void renewals.now();
    await clock.advance(10 * PAUSE);
    expect(isStopped).toBe(false);
    end();
    await stopped;
    await clock.advance(10 * PAUSE);
    expect(begun).toEqual([0]);
    expect(clock.pending).toBe(0);
  });
});
