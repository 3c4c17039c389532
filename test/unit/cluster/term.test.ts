import { expect, onTestFinished, test } from 'vitest';
import { createTerms } from '../../../src/cluster/term.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { localTime, replicasOf } from '../../../src/store/leases.ts';
import { openTestInstallation } from '../../support/store.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const TTL = 3_000;

/** @param early by how much the first timer goes off before its time, milliseconds */
async function bench(early = 0) {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const clock = createTravellingClock();
  const lapses: number[] = [];
  const heard: number[] = [];
  let ahead = early;
  const terms = createTerms({
    ...{ query: installation.query, random: systemRandom(), passed: clock.elapsed, storeTime: localTime(clock) },
    after(ms, call) {
      const cancel = clock.after(ms - ahead, call);
      ahead = 0;
      return cancel;
    },
    replica: () => ({ id: 'a', address: 'http://a', about: '{}' }),
    onTime: (now) => void heard.push(now),
    onLapse: (workspaces) => void lapses.push(workspaces),
  });
  return { clock, terms, lapses, heard, replicas: () => replicasOf(installation.query) };
}

test('a term ends by itself as soon as it is not trusted any more, and no sooner, also where its timer is early', async () => {
  const { clock, terms, lapses } = await bench(10);
  const { term } = await terms.renewed();
  term.held.set(1, terms.lease(term, 1, 1));
  term.leaving.set(2, terms.lease(term, 2, 1));
  await clock.toNextTimer();
  expect([clock.elapsed(), terms.isTrusted(term), term.over.signal.aborted]).toEqual([TTL - 10, true, false]);
  await clock.toNextTimer();
  expect([clock.elapsed(), terms.isTrusted(term), term.over.signal.aborted]).toEqual([TTL, false, true]);
  expect(lapses).toEqual([2]);
  expect(clock.pending).toBe(0);
});

test('each renewal trusts the term for so long after it began, and what was trusted longer before is no sooner over', async () => {
  const { clock, terms } = await bench();
  const { term } = await terms.renewed();
  const lease = terms.lease(term, 1, 1);
  await clock.advance(TTL - 1);
  expect((await terms.renewed()).term).toBe(term);
  await clock.advance(TTL - 1);
  expect([lease.isTrusted(), lease.lost?.aborted]).toEqual([true, false]);
  await clock.advance(1);
  expect([lease.isTrusted(), lease.lost?.aborted]).toEqual([false, true]);
});

test('a term that is over is not renewed but followed by another one, under which nothing is held', async () => {
  const { clock, terms, heard, replicas } = await bench();
  const first = (await terms.renewed()).term;
  await clock.advance(TTL);
  const { term, replicas: seen } = await terms.renewed();
  expect(term).toBe(terms.present);
  expect([terms.isTrusted(term), terms.isTrusted(first), term.held.size]).toEqual([true, false, 0]);
  expect(term.incarnation).not.toBe(first.incarnation);
  expect((await replicas()).map(({ incarnation }) => incarnation)).toEqual([term.incarnation]);
  expect(seen).toEqual(await replicas());
  expect(heard).toEqual([]);
  await terms.renewed();
  expect(heard).toEqual([clock.now()]);
});

test('a lease whose work has ended is trusted no more, nor is one of a term that was ended', async () => {
  const { terms } = await bench();
  const { term } = await terms.renewed();
  const [closed, other] = [terms.lease(term, 1, 1), terms.lease(term, 2, 1)];
  closed.isClosed = true;
  expect([closed.isTrusted(), other.isTrusted()]).toEqual([false, true]);
  terms.end(term);
  expect([other.isTrusted(), other.lost?.aborted]).toEqual([false, true]);
});
