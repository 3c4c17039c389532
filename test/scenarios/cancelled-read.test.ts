import { sql } from 'kysely';
import { afterEach, expect, it } from 'vitest';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { ON_POSTGRES } from '../support/postgres/store-place.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

let world: World;
afterEach(() => world.close());

/** Ends the read as the statement timeout does, which tests do not wait for. */
async function cancelRead(): Promise<number> {
  const { rows } = await sql`
  select pg_cancel_backend(pid) from pg_stat_activity where query like '%as slow_read' and state = 'active'
`.execute(world.installation().query);
  return rows.length;
}

it.runIf(ON_POSTGRES)(
  'a read that PostgreSQL cancels because it takes too long leaves the daemon ready, its workspaces running and its webhooks stored',
  async () => {
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
  },
);
