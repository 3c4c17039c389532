import { sql } from 'kysely';
import pg from 'pg';
import { afterEach, describe, expect, inject, it, onTestFinished } from 'vitest';
import { addAudit } from '../../src/store/access/audit-rows.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { ON_POSTGRES } from '../support/postgres/store-place.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

describe('a process that is killed', () => {
  /** What all tests rely on in which a process is killed. */

  let world: World;
  let revive: (() => Promise<void>) | undefined;
  afterEach(async () => {
    await revive?.();
    revive = undefined;
    await world.close();
  });

  const note = (action: string): Parameters<typeof addAudit>[1] => ({
    ...{ at: 1, workspace: null, actor: 'a', subject: null, count: null, details: null, outcome: 'done' },
    action,
  });

  const notes = async () =>
    (await world.installation().query.selectFrom('audit').select('action').execute()).map(({ action }) => action);

  it('leaves what was committed, and nothing of a transaction that was under way', async () => {
    world = await createWorld();
    const { query, commit } = world.installation();
    await addAudit(query, note('before'));
    const lost = commit(async (transaction) => {
      await addAudit(transaction, note('under way'));
      revive = world.kill();
      await addAudit(transaction, note('after its end'));
    });
    // A file is no longer the one that the next process opens.
    if (ON_POSTGRES) await expect(lost).rejects.toMatchObject({ code: 'database_away' });
    else await lost;
    await revive?.();
    revive = undefined;
    expect(await notes()).toEqual(['before']);
  });

  it('ends what the process could say and hear at that very moment, and the next one goes on', async () => {
    world = await createWorld();
    await world.settled();
    revive = world.kill();
    expect(await world.deliver('pull_request', pullEvent({ number: 1 }))).toBe(0);
    await revive();
    revive = undefined;
    await world.pull({ number: 2 });
    await world.settled();
    expect((await world.partition().status()).pullRequests.total).toBe(1);
  });

  it.runIf(ON_POSTGRES)('ends all connections at once, also that of a transaction that holds a lock', async () => {
    world = await createWorld();
    const { commit, query } = world.installation();
    const client = new pg.Client({ connectionString: inject('postgres') });
    await client.connect();
    onTestFinished(() => client.end());
    const killed = Promise.withResolvers<number>();
    const over = Promise.withResolvers<void>();
    const lost = commit(async (transaction) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(transaction);
      await transaction.updateTable('workspaces').set({ name: 'test' }).execute();
      revive = world.kill();
      killed.resolve(rows[0]?.pid ?? 0);
      await over.promise;
    });
    lost.catch(() => undefined);
    const pid = await killed.promise;
    expect(pid).toBeGreaterThan(0);
    await expect(query.selectFrom('workspaces').selectAll().execute()).rejects.toMatchObject({ code: 'database_away' });
    // The process still believes in its transaction: the server does not.
    const lives = async () => (await client.query('select 1 from pg_stat_activity where pid = $1', [pid])).rows.length;
    await expect.poll(lives).toBe(0);
    over.resolve();
    await expect(lost).rejects.toMatchObject({ code: 'database_away' });
  });
});

describe('a read that PostgreSQL cancels because it takes too long', () => {
  /** A read that PostgreSQL cancels because it takes too long. */

  let world: World;
  afterEach(() => world.close());

  /** Ends the read as the statement timeout does, which tests do not wait for. */
  async function cancelRead(): Promise<number> {
    const { rows } = await sql`
    select pg_cancel_backend(pid) from pg_stat_activity where query like '%as slow_read' and state = 'active'
  `.execute(world.installation().query);
    return rows.length;
  }

  it.runIf(ON_POSTGRES)('leaves the daemon ready, its workspaces running and its webhooks stored', async () => {
    world = await createWorld();
    await world.settled();
    const read = sql`select pg_sleep(60) as slow_read`.execute(world.installation().query);
    const failure = read.then(
      () => undefined,
      (error: unknown) => error,
    );
    await expect.poll(cancelRead).toBe(1);
    expect(await failure).toMatchObject({ code: 'database_failed', kind: 'busy' });
    expect((await fetch(`${world.daemon().address}/readyz`)).status).toBe(200);
    expect((await world.daemon().status()).verdict).toBe('ok');
    expect(await world.deliver('pull_request', pullEvent({ number: 1 }))).toBe(202);
    await world.settled();
  });
});
