import { describe, expect, test } from 'vitest';
import { soleHolder } from '../../../src/cluster/lease-holder.ts';
import { removeExpired, replicasOf } from '../../../src/store/leases.ts';
import { type Cluster, commitUnder, leaseRow, openCluster } from '../../support/holders.ts';
import { ON_POSTGRES } from '../../support/store-place.ts';

const SIX = ['one', 'two', 'three', 'four', 'five', 'six'];
const TTL = 3_000;
const RENEWAL = 500;

/** By member, how many workspaces it holds. */
function shares({ members }: Cluster): Record<string, number> {
  return Object.fromEntries(members().map(({ name, trusts }) => [name, trusts().length]));
}

test('a sole holder holds everything, without a fence and without an end', async () => {
  await soleHolder.want(SIX);
  const lease = soleHolder.leaseOf('anything');
  expect([lease?.isTrusted(), lease?.fence, lease?.lost]).toEqual([true, undefined, undefined]);
});

describe('several holders over one store', () => {
  test('the first takes everything at once, and gives up what is beyond its share when others come', async () => {
    const cluster = await openCluster(SIX);
    await cluster.join('a');
    expect(shares(cluster)).toEqual({ a: 6 });
    await cluster.join('b');
    await cluster.join('c');
    await cluster.clock.advance(3 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 2, b: 2, c: 2 });
  });

  test('what is to be left is held by nobody else until the work on it has ended', async () => {
    const cluster = await openCluster(SIX);
    const { holder } = await cluster.join('a');
    const closing = Promise.withResolvers<void>();
    holder.onChange(() => closing.promise);
    const left = SIX.map((name) => holder.leaseOf(name));
    await cluster.join('b');
    await cluster.clock.advance(10 * TTL);
    expect(shares(cluster)).toEqual({ a: 3, b: 0 });
    expect(left.map((lease) => lease?.isTrusted())).toEqual(SIX.map(() => true));
    closing.resolve();
    await cluster.clock.advance(2 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 3, b: 3 });
    expect(left.filter((lease) => lease?.isTrusted())).toHaveLength(3);
  });

  test('others go on after a kill, at the latest one TTL and one renewal later', async () => {
    for (const phase of [0, 1, 300, 700, 999]) {
      const cluster = await openCluster(SIX);
      const killed = await cluster.join('a');
      await cluster.join('b');
      await cluster.clock.advance(5 * RENEWAL + 400);
      await cluster.join('c');
      await cluster.clock.advance(5 * RENEWAL + phase);
      expect(shares(cluster)).toEqual({ a: 2, b: 2, c: 2 });
      const lost = killed.trusts();
      const before = await Promise.all(lost.map((workspace) => leaseRow(cluster.installation, workspace)));
      killed.kill();
      await cluster.clock.advance(TTL + RENEWAL);
      expect(shares(cluster)).toEqual({ a: 0, b: 3, c: 3 });
      const after = await Promise.all(lost.map((workspace) => leaseRow(cluster.installation, workspace)));
      expect(after.map(({ epoch }) => epoch)).toEqual(before.map(({ epoch }) => epoch + 1));
    }
  });

  test('what a process has taken without hearing so is given back, and taken by who is to have it', async () => {
    const cluster = await openCluster(['one', 'two']);
    cluster.loseAnswers('a', true);
    const { holder, trusts, takeovers } = await cluster.join('a');
    await cluster.join('b');
    await cluster.clock.advance(10 * TTL);
    expect(trusts()).toEqual([]);
    cluster.loseAnswers('a', false);
    await cluster.clock.advance(3 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 1, b: 1 });
    // Nobody was silent.
    expect(takeovers()).toBe(0);
    const [own] = trusts();
    await commitUnder(cluster.installation, holder.leaseOf(own as string)?.fence, async () => undefined);
  });

  test('a database that refuses everything is asked no more often than at rest', async () => {
    const cluster = await openCluster(['one']);
    await cluster.join('a');
    const dead = await cluster.join('b');
    await cluster.clock.advance(2 * RENEWAL);
    dead.kill();
    // Among others, what takes away who has lapsed.
    cluster.refuse('a', (statement) => statement.startsWith('delete'));
    const asked: string[] = [];
    cluster.onStatement((statement) => void asked.push(statement));
    await cluster.clock.advance(10 * TTL);
    expect(cluster.errors).toEqual(['leases could not be renewed']);
    expect(asked.length).toBeLessThanOrEqual((2 * 10 * TTL) / RENEWAL);
  });

  test('counts as taken over what nobody gave back, and no share that moved', async () => {
    const cluster = await openCluster(SIX);
    const takeovers = () => cluster.members().map(({ takeovers: count }) => count());
    const killed = await cluster.join('a');
    const { holder } = await cluster.join('b');
    const slept = await cluster.join('c');
    await cluster.clock.advance(5 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 2, b: 2, c: 2 });
    expect(takeovers()).toEqual([0, 0, 0]);
    await holder.stop();
    await cluster.clock.advance(5 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 3, b: 0, c: 3 });
    expect(takeovers()).toEqual([0, 0, 0]);
    killed.kill();
    await cluster.clock.advance(TTL + RENEWAL);
    expect(shares(cluster)).toEqual({ a: 0, b: 0, c: 6 });
    expect(takeovers()).toEqual([0, 0, 3]);
    // Who finds its own work left alone takes it over from itself.
    slept.sleep();
    await cluster.clock.advance(2 * TTL);
    slept.wake();
    await cluster.clock.advance(2 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 0, b: 0, c: 6 });
    expect(takeovers()).toEqual([0, 0, 9]);
  });

  test('one that slept too long trusts nothing any more when it wakes, and its commits are refused', async () => {
    const cluster = await openCluster(['one']);
    const sleeper = await cluster.join('a');
    await cluster.join('b');
    await cluster.clock.advance(2 * RENEWAL);
    const lease = sleeper.holder.leaseOf('one');
    const commit = () => commitUnder(cluster.installation, lease?.fence, async () => undefined);
    await commit();
    sleeper.sleep();
    await cluster.clock.advance(TTL + RENEWAL);
    expect(shares(cluster)).toEqual({ a: 0, b: 1 });
    sleeper.wake();
    expect(lease?.isTrusted()).toBe(false);
    await expect(commit()).rejects.toMatchObject({ code: 'lease_lost' });
    await cluster.clock.advance(0);
    expect(lease?.lost?.aborted).toBe(true);
    await cluster.clock.advance(3 * RENEWAL);
    // Under another incarnation it may hold it again, and the lease of before is none for that.
    expect(sleeper.trusts().length + (cluster.members()[1]?.trusts().length ?? 0)).toBe(1);
    expect(lease?.isTrusted()).toBe(false);
  });

  test('one that slept alone goes on under a new incarnation', async () => {
    const cluster = await openCluster(SIX);
    const { sleep, wake, trusts, holder } = await cluster.join('a');
    const before = await leaseRow(cluster.installation, 'one');
    const lease = holder.leaseOf('one');
    sleep();
    await cluster.clock.advance(10 * TTL);
    wake();
    await cluster.clock.advance(2 * RENEWAL);
    expect(trusts()).toEqual(SIX);
    expect(holder.leaseOf('one')).not.toBe(lease);
    const after = await leaseRow(cluster.installation, 'one');
    expect(after.epoch).toBe(before.epoch + 1);
    expect(after.incarnation).not.toBe(before.incarnation);
  });

  test('the trust counts from the begin of a renewal, however long the answer takes', async () => {
    let slow = 0;
    const cluster = await openCluster(['one'], (name, way) => (name === 'a' && way === 'back' ? slow : 0));
    const first = await cluster.join('a');
    await cluster.join('b');
    await cluster.clock.advance(5 * RENEWAL);
    slow = 1_900;
    await cluster.clock.advance(RENEWAL + slow);
    first.kill();
    slow = 0;
    for (let passed = 0; passed < 2 * TTL; passed += 10) {
      expect(cluster.members().flatMap((member) => member.trusts()).length).toBeLessThan(2);
      await cluster.clock.advance(10);
    }
    expect(shares(cluster)).toEqual({ a: 0, b: 1 });
  });

  test('who was renewed after it was looked at has not lapsed', async () => {
    const { installation, join, clock } = await openCluster(SIX);
    await join('a');
    const before = await replicasOf(installation.query);
    await clock.advance(RENEWAL);
    await removeExpired(installation.query, before);
    expect(await replicasOf(installation.query)).toHaveLength(1);
  });

  test('who lapsed meanwhile takes nothing', async () => {
    const cluster = await openCluster([]);
    const { holder } = await cluster.join('a');
    const isFree = () => holder.leaseOf('one') === undefined;
    const { query } = cluster.installation;
    // Its row goes after it was renewed for the last time, and before it takes anything.
    cluster.onStatement((statement) => {
      if (statement.includes('inner join "replicas"')) void query.deleteFrom('replicas').execute();
    });
    await holder.want(['one']);
    expect(isFree()).toBe(true);
    await cluster.clock.advance(2 * RENEWAL);
    expect(await query.selectFrom('leases').selectAll().execute()).toEqual([]);
  });

  test('what is given back at the end is taken with the next renewal', async () => {
    const cluster = await openCluster(SIX);
    const { holder } = await cluster.join('a');
    await cluster.join('b');
    await cluster.clock.advance(3 * RENEWAL);
    await holder.stop();
    expect(shares(cluster)).toEqual({ a: 0, b: 3 });
    await cluster.clock.advance(RENEWAL);
    expect(shares(cluster)).toEqual({ a: 0, b: 6 });
  });

  test('what is not configured any more is given back, and what is new is taken', async () => {
    const cluster = await openCluster(SIX);
    const { holder } = await cluster.join('a');
    const left = holder.leaseOf('one');
    await holder.want([...SIX.slice(1), 'seven']);
    await cluster.clock.advance(RENEWAL);
    expect(holder.leaseOf('one')).toBeUndefined();
    expect(left?.isTrusted()).toBe(false);
    expect(holder.leaseOf('seven')?.isTrusted()).toBe(true);
    expect(await leaseRow(cluster.installation, 'one')).toEqual({ epoch: 1, incarnation: null });
  });

  test.each([
    ['an hour back', -3_600_000],
    ['an hour ahead', 3_600_000],
  ])(
    'a clock of the store that is set %s moves no lease of who lives, and keeps none of who died',
    async (_name, ms) => {
      const cluster = await openCluster(SIX);
      const first = await cluster.join('a');
      const second = await cluster.join('b');
      await cluster.clock.advance(3 * RENEWAL);
      const leases = SIX.map((name) => first.holder.leaseOf(name) ?? second.holder.leaseOf(name));
      cluster.jumpStore(ms);
      await cluster.clock.advance(4 * TTL);
      expect(leases.every((lease) => lease?.isTrusted())).toBe(true);
      first.kill();
      await cluster.clock.advance(TTL + RENEWAL);
      expect(shares(cluster)).toEqual({ a: 0, b: 6 });
    },
  );

  test('that the clock of the store was set is told until it is heard', async () => {
    const cluster = await openCluster(SIX);
    await cluster.join('a');
    let told = 0;
    cluster.onClockSet(async () => {
      if (told++ === 0) throw new Error('the database is away');
    });
    await cluster.clock.advance(2 * RENEWAL);
    expect(told).toBe(0);
    cluster.jumpStore(3_600_000);
    await cluster.clock.advance(4 * RENEWAL);
    expect([told, cluster.errors]).toEqual([2, ['leases could not be renewed']]);
  });

  test('a store that does not answer ends the trust, and all goes on when it answers again', async () => {
    const cluster = await openCluster(SIX);
    const { holder, trusts } = await cluster.join('a');
    const told: number[] = [];
    holder.onChange(async () => void told.push(trusts().length));
    const { query } = cluster.installation;
    await query.schema.alterTable('replicas').renameTo('away').execute();
    await cluster.clock.advance(TTL);
    expect(trusts()).toEqual([]);
    await query.schema.alterTable('away').renameTo('replicas').execute();
    await cluster.clock.advance(2 * RENEWAL);
    expect(trusts()).toEqual(SIX);
    expect(told).toEqual([0, 6]);
  });

  test('whatever the database refuses of a renewal is told, and the next renewal goes on from there', async () => {
    const wanted = [...SIX.slice(1), 'seven'];
    /** One is killed, and one workspace is left for another one, while the other process has one statement refused. */
    async function liveThrough(refused: number) {
      const cluster = await openCluster(SIX);
      const { holder } = await cluster.join('a');
      const { kill } = await cluster.join('b');
      await cluster.clock.advance(3 * RENEWAL);
      expect(shares(cluster)).toEqual({ a: 3, b: 3 });
      kill();
      await cluster.clock.advance(TTL - 2 * RENEWAL);
      const asked: string[] = [];
      cluster.refuse('a', (statement) => asked.push(statement) === refused);
      const told = holder.want(wanted);
      await cluster.clock.advance(5 * RENEWAL);
      await told;
      expect(wanted.filter((name) => !holder.leaseOf(name)?.isTrusted())).toEqual([]);
      return { asked, errors: cluster.errors };
    }
    const { asked, errors } = await liveThrough(0);
    expect(errors).toEqual([]);
    // One of each kind is enough.
    const kinds = [...new Set(asked)].map((statement) => asked.indexOf(statement) + 1);
    for (const refused of kinds) expect((await liveThrough(refused)).errors).toEqual(['leases could not be renewed']);
  });

  test.each([
    ['gives back', 'leases'],
    ['leaves', 'replicas'],
  ])('one that stops tells where it %s nothing', async (_name, table) => {
    const cluster = await openCluster(SIX);
    const { holder } = await cluster.join('a');
    cluster.refuse('a', (statement) => statement.includes(`"${table}"`) && !statement.startsWith('select'));
    await expect(holder.stop()).rejects.toThrow('refused');
  });

  test('a renewal whose answer comes after the trust is over begins anew at once', async () => {
    let slow = 0;
    const cluster = await openCluster(['one'], (_name, way) => (way === 'back' ? slow : 0));
    const { holder, trusts } = await cluster.join('a');
    const lease = holder.leaseOf('one');
    await cluster.clock.advance(RENEWAL - 1);
    slow = TTL;
    await cluster.clock.advance(1);
    slow = 0;
    await cluster.clock.advance(TTL - RENEWAL);
    expect([trusts(), lease?.lost?.aborted]).toEqual([[], true]);
    expect(holder.leaseOf('one')).toBeUndefined();
    await cluster.clock.advance(RENEWAL);
    expect(trusts()).toEqual(['one']);
    expect(lease?.isTrusted()).toBe(false);
  });

  test('what was taken when the trust was over already is held by nobody until the next renewal takes it', async () => {
    let slow = 0;
    const cluster = await openCluster(['one'], (_name, way) => {
      const ms = way === 'back' ? slow : 0;
      if (ms > 0) slow = 0;
      return ms;
    });
    const told: string[][] = [];
    let takings = 0;
    cluster.onStatement((statement) => {
      // The answer to the whole transaction is long on the way.
      if (statement.startsWith('insert into "leases"') && takings++ === 0) slow = TTL;
    });
    const { holder, trusts } = await cluster.join('a');
    holder.onChange(async () => void told.push([...trusts()]));
    await cluster.clock.advance(TTL);
    expect([trusts(), told]).toEqual([[], []]);
    await cluster.clock.advance(RENEWAL);
    expect([trusts(), told]).toEqual([['one'], [['one']]]);
  });

  test('a process that stops while it begins anew leaves nothing behind', async () => {
    let slow = 0;
    const cluster = await openCluster(SIX, (_name, way) => (way === 'back' ? slow : 0));
    const { holder, sleep, wake } = await cluster.join('a');
    sleep();
    await cluster.clock.advance(2 * TTL);
    slow = RENEWAL;
    wake();
    await cluster.clock.advance(1);
    const stopped = holder.stop();
    await cluster.clock.advance(10 * RENEWAL);
    await stopped;
    expect(await replicasOf(cluster.installation.query)).toEqual([]);
    expect((await leaseRow(cluster.installation, 'one')).incarnation).toBeNull();
  });

  test('workspaces are taken in the transaction that renews, so that nobody comes in between', async () => {
    const { statements, join } = await openCluster(SIX);
    await join('a');
    const taking = statements.findIndex((statement) => statement.startsWith('insert into "leases"'));
    const before = statements.slice(0, taking);
    const within = before.slice(before.findLastIndex((statement) => /^(?:begin|commit)/.test(statement)));
    expect(within[0]).toMatch(/^begin/);
    expect(within[1]).toMatch(/^update "replicas"/);
    // A file has one writer anyway.
    expect(within.some((statement) => statement.includes('pg_advisory_xact_lock'))).toBe(ON_POSTGRES);
  });

  test('at rest a renewal costs one statement of a server, and a look for what nobody holds one in ten seconds, however many workspaces there are', async () => {
    const many = Array.from({ length: 500 }, (_, index) => `workspace-${index}`);
    const cluster = await openCluster(many);
    for (const name of ['a', 'b']) await cluster.join(name);
    await cluster.clock.advance(5 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 250, b: 250 });
    cluster.statements.length = 0;
    await cluster.clock.advance(20 * RENEWAL);
    // SQLite cannot change and read in one.
    const ofRenewal = ON_POSTGRES ? 1 : 2;
    expect(cluster.statements).toHaveLength(2 * (ofRenewal * 20 + 1));
  });
});
