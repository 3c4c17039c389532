import { execFileSync } from 'node:child_process';
import { chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { type PostgresServer, startPostgres } from '../postgres-server.ts';

/** A server, and another one that has every commit before it is acknowledged. */
export interface Pair {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;
  /** The standby takes writes from now on. */
  promote(): Promise<void>;
}

export async function startPair(): Promise<Pair> {
  const primary = await startPostgres({ settings: { synchronous_standby_names: '*', synchronous_commit: 'on' } });
  await primary.stop();
  const standby = startPostgres({
    settings: { primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres` },
    fill(data, { uid, gid }) {
      execFileSync('cp', ['-a', `${primary.data}/.`, data]);
      const signal = join(data, 'standby.signal');
      writeFileSync(signal, '');
      if (uid !== undefined) chownSync(signal, uid, gid);
    },
  });
  await primary.start();
  const copy = await standby;
  return {
    primary,
    standby: copy,
    async promote() {
      const client = new pg.Client({ connectionString: copy.address });
      await client.connect();
      await client.query('select pg_promote()');
      await client.end();
    },
  };
}
