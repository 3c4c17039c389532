import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { mountSmallVolume } from '../../faults/small-volume.ts';
import { embeddedPrograms, serverUser, startPostgres } from '../postgres-server.ts';

/** A server, and another one that has every commit before it is acknowledged. */
export async function startPair() {
  const primary = await startPostgres({ settings: { synchronous_standby_names: '*', synchronous_commit: 'on' } });
  await primary.stop();
  const starting = startPostgres({
    settings: { primary_conninfo: `host=127.0.0.1 port=${primary.port} user=postgres` },
    fill(data, { uid, gid }) {
      execFileSync('cp', ['-a', `${primary.data}/.`, data]);
      const signal = join(data, 'standby.signal');
      writeFileSync(signal, '');
      if (uid !== undefined) chownSync(signal, uid, gid);
    },
  });
  await primary.start();
  const standby = await starting;
  return {
    ...{ primary, standby },
    /** The standby takes writes from now on. */
    async promote() {
      const client = new pg.Client({ connectionString: standby.address });
      await client.connect();
      await client.query('select pg_promote()');
      await client.end();
    },
  };
}

const BYTES = 200 * 1024 * 1024;

/** A server whose tables are on a small volume, and whose log is elsewhere: so it goes on when the volume is full. */
export async function startCrampedServer() {
  const volume = mountSmallVolume(BYTES);
  const log = mkdtempSync(join(tmpdir(), 'worksync-postgres-log-'));
  const { uid, gid } = serverUser();
  if (uid !== undefined) chownSync(log, uid, gid as number);
  const close = () => {
    volume.remove();
    rmSync(log, { recursive: true, force: true });
  };
  try {
    const flags = ['-X', log, '-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    const postgres = await startPostgres({
      data: join(volume.path, 'data'),
      fill: (data, user) =>
        execFileSync(join(embeddedPrograms(), 'initdb'), ['-D', data, ...flags], { ...user, stdio: 'pipe' }),
    });
    return { postgres, volume, close };
  } catch (error) {
    close();
    throw error;
  }
}
