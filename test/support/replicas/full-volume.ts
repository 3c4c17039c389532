import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { embeddedPrograms, type PostgresServer, serverUser, startPostgres } from '../postgres-server.ts';
import { mountSmallVolume, type SmallVolume } from '../small-volume.ts';

/** A server whose tables are on a small volume, and whose log is elsewhere: so it goes on when the volume is full. */
export interface CrampedServer {
  readonly postgres: PostgresServer;
  readonly volume: SmallVolume;
  close(): void;
}

const BYTES = 200 * 1024 * 1024;

export async function startCrampedServer(): Promise<CrampedServer> {
  const volume = mountSmallVolume(BYTES);
  const log = mkdtempSync(join(tmpdir(), 'worksync-postgres-log-'));
  const { uid, gid } = serverUser();
  if (uid !== undefined) chownSync(log, uid, gid as number);
  const close = () => {
    volume.remove();
    rmSync(log, { recursive: true, force: true });
  };
  try {
    const postgres = await startPostgres({
      data: join(volume.path, 'data'),
      fill(data, user) {
        const flags = [
          '-D',
          data,
          '-X',
          log,
          '-U',
          'postgres',
          '--auth=trust',
          '-E',
          'UTF8',
          '--locale=C',
          '--no-sync',
        ];
        execFileSync(join(embeddedPrograms(), 'initdb'), flags, { ...user, stdio: 'pipe' });
      },
    });
    return { postgres, volume, close };
  } catch (error) {
    close();
    throw error;
  }
}
