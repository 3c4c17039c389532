import { describe, expect, test } from 'vitest';
import { replicasOf } from '../../../src/store/installation/leases.ts';
import { type Cluster, commitUnder, leaseRow, openCluster } from '../../support/postgres/holders.ts';
import { ON_POSTGRES } from '../../support/postgres/store-place.ts';

const SIX = ['one', 'two', 'three', 'four', 'five', 'six'];
const TTL = 3_000;
const RENEWAL = 500;

/** The number of workspaces that each member owns. */
function shares({ members }: Cluster): Record<string, number> {
  return Object.fromEntries(members().map(({ name, trusts }) => [name, trusts().length]));
}

describe('several lease holders over one store', () => {
  test('a workspace that moves is acquired by another process only after the work on it has ended', async () => {
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

  test('the workspaces of a killed process are acquired within one TTL and one renewal', async () => {
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

  test('leases whose acquisition was never confirmed are given back, and then shared', async () => {
    const cluster = await openCluster(['one', 'two']);
    cluster.loseAnswers('a', true);
    const { holder, trusts, takeovers } = await cluster.join('a');
    await cluster.join('b');
    await cluster.clock.advance(10 * TTL);
    expect(trusts()).toEqual([]);
    cluster.loseAnswers('a', false);
    await cluster.clock.advance(3 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 1, b: 1 });
    // Both processes renewed all the time.
    expect(takeovers()).toBe(0);
    const [own] = trusts();
    await commitUnder(cluster.installation, holder.leaseOf(own as string)?.fence, async () => undefined);
  });

  test('a process that was suspended too long trusts no lease, and its commits are refused', async () => {
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
    // It may own the workspace again under another incarnation, but the old lease stays invalid.
    expect(sleeper.trusts().length + (cluster.members()[1]?.trusts().length ?? 0)).toBe(1);
    expect(lease?.isTrusted()).toBe(false);
  });

  test('a process whose row was removed trusts no lease of its old incarnation', async () => {
    const cluster = await openCluster(['one']);
    const { holder } = await cluster.join('a');
    const [lease, before] = [holder.leaseOf('one'), await leaseRow(cluster.installation, 'one')];
    await cluster.installation.query.deleteFrom('replicas').execute();
    await cluster.clock.advance(2 * RENEWAL);
    expect([lease?.isTrusted(), holder.leaseOf('one')?.isTrusted()]).toEqual([false, true]);
    expect((await leaseRow(cluster.installation, 'one')).epoch).toBe(before.epoch + 1);
  });

  test('trust counts from the start of a renewal, however late its answer is', async () => {
    let slow = 0;
    const cluster = await openCluster(['one'], (name, way) => (name === 'a' && way === 'back' ? slow : 0));
    const first = await cluster.join('a');
    await cluster.join('b');
    await cluster.clock.advance(5 * RENEWAL);
    slow = 1_900;
    await cluster.clock.advance(RENEWAL + slow);
    first.kill();
    slow = 0;
    for (let elapsed = 0; elapsed < 2 * TTL; elapsed += 10) {
      expect(cluster.members().flatMap((member) => member.trusts()).length).toBeLessThan(2);
      await cluster.clock.advance(10);
    }
    expect(shares(cluster)).toEqual({ a: 0, b: 1 });
  });

  test('a process that expired during a renewal acquires nothing', async () => {
    const cluster = await openCluster([]);
    const { holder } = await cluster.join('a');
    const isFree = () => holder.leaseOf('one') === undefined;
    const { query } = cluster.installation;
    // Its row is removed after its last renewal and before its first acquisition.
    cluster.onStatement((statement) => {
      if (statement.includes('inner join "replicas"')) void query.deleteFrom('replicas').execute();
    });
    await holder.want(['one']);
    expect(isFree()).toBe(true);
    await cluster.clock.advance(2 * RENEWAL);
    expect(await query.selectFrom('leases').selectAll().execute()).toEqual([]);
  });

  test('workspaces that are no longer configured are given back, and new ones are acquired', async () => {
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
    'a store clock that is set %s moves no lease of a living process, and frees those of a dead one',
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

  test('a setting of the store clock is reported again until the report succeeds', async () => {
    const cluster = await openCluster(SIX);
    await cluster.join('a');
    let reports = 0;
    cluster.onClockSet(async () => {
      if (reports++ === 0) throw new Error('the database is away');
    });
    await cluster.clock.advance(2 * RENEWAL);
    expect(reports).toBe(0);
    cluster.jumpStore(3_600_000);
    await cluster.clock.advance(4 * RENEWAL);
    expect([reports, cluster.errors]).toEqual([2, ['leases could not be renewed']]);
  });

  test('a store that does not answer ends the trust, and work continues when it answers again', async () => {
    const cluster = await openCluster(SIX);
    const { holder, trusts } = await cluster.join('a');
    const changes: number[] = [];
    holder.onChange(async () => void changes.push(trusts().length));
    const { query } = cluster.installation;
    await query.schema.alterTable('replicas').renameTo('away').execute();
    await cluster.clock.advance(TTL);
    expect(trusts()).toEqual([]);
    await query.schema.alterTable('away').renameTo('replicas').execute();
    await cluster.clock.advance(2 * RENEWAL);
    expect(trusts()).toEqual(SIX);
    expect(changes).toEqual([0, 6]);
  });

  test('each statement of a renewal may be refused once: the failure is logged, and the next renewal repairs it', async () => {
    const wanted = [...SIX.slice(1), 'seven'];
    /** One process is killed and one workspace is replaced, while the other process has one statement refused. */
    async function runWithRefusal(refused: number) {
      const cluster = await openCluster(SIX);
      const { holder } = await cluster.join('a');
      const { kill } = await cluster.join('b');
      await cluster.clock.advance(3 * RENEWAL);
      expect(shares(cluster)).toEqual({ a: 3, b: 3 });
      kill();
      await cluster.clock.advance(TTL - 2 * RENEWAL);
      const statements: string[] = [];
      cluster.refuse('a', (statement) => statements.push(statement) === refused);
      const applied = holder.want(wanted);
      await cluster.clock.advance(5 * RENEWAL);
      await applied;
      expect(wanted.filter((name) => !holder.leaseOf(name)?.isTrusted())).toEqual([]);
      return { statements, errors: cluster.errors };
    }
    const { statements, errors } = await runWithRefusal(0);
    expect(errors).toEqual([]);
    // One refusal of each kind is enough.
    const kinds = [...new Set(statements)].map((statement) => statements.indexOf(statement) + 1);
    for (const refused of kinds)
      expect((await runWithRefusal(refused)).errors).toEqual(['leases could not be renewed']);
  });

  test('a renewal whose answer arrives after the end of the trust begins another term at once', async () => {
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

  test('at rest a renewal is one statement, and a check for unowned workspaces one in 10 s, for any number of workspaces', async () => {
    const many = Array.from({ length: 500 }, (_, index) => `workspace-${index}`);
    const cluster = await openCluster(many);
    for (const name of ['a', 'b']) await cluster.join(name);
    await cluster.clock.advance(5 * RENEWAL);
    expect(shares(cluster)).toEqual({ a: 250, b: 250 });
    cluster.statements.length = 0;
    await cluster.clock.advance(20 * RENEWAL);
    // SQLite cannot update and list in one statement.
    const ofRenewal = ON_POSTGRES ? 1 : 2;
    expect(cluster.statements).toHaveLength(2 * (ofRenewal * 20 + 1));
  });

  test('the stored address and facts of a process follow its own; a refused update is logged and repeated', async () => {
    const { installation, refuse, clock, join, errors } = await openCluster(['one']);
    await join('a');
    const { query } = installation;
    const addresses = async () => (await replicasOf(query)).map(({ address }) => address);
    await query.updateTable('replicas').set({ address: 'http://before' }).execute();
    refuse('a', (statement) => statement.startsWith('update "replicas" set "address"'));
    await clock.advance(2 * RENEWAL);
    expect([await addresses(), errors]).toEqual([['http://before'], ['leases could not be renewed']]);
    refuse('a', () => false);
    await clock.advance(2 * RENEWAL);
    expect(await addresses()).toEqual(['http://a']);
    await query.updateTable('replicas').set({ about: '{}' }).execute();
    await clock.advance(2 * RENEWAL);
    expect((await replicasOf(query)).map(({ about }) => about)).not.toContain('{}');
  });
});
