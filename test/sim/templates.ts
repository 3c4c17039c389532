import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { silentLogger } from '../../src/platform/lib/logger.ts';
import { createWorkspaceService } from '../../src/reference-service/service.ts';
import { openInstallation } from '../../src/store/installation.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { chanceOf, randomOf } from './chances.ts';
import { makeFolder } from './folder.ts';
import { type Keys, readKeys } from './keys.ts';
import { addOldAudit } from './old-rows.ts';

/** Databases with all tables, and what somebody did long ago: to make them takes longer than many a run. */
export interface Templates {
  installation(folder: string): void;
  service(file: string): void;
  /** Of the tables of an installation. */
  readonly keys: Keys;
  remove(): void;
}

export async function createTemplates(): Promise<Templates> {
  const folder = makeFolder();
  const random = randomOf(chanceOf(0, 'templates'));
  const clock = createTravellingClock();
  const installation = await openInstallation(folder, { random });
  const keys = await readKeys(installation.query);
  await addOldAudit(installation, clock.now());
  await installation.close();
  const file = join(folder, 'service.db');
  const quota = { requests: 200, window: 900_000, burst: 40, burstWindow: 60_000 };
  const service = await createWorkspaceService({ file, clock, random, logger: silentLogger, quota });
  await service.startCredentials();
  await service.close();
  return {
    installation: (place) => copyFileSync(join(folder, 'worksync.db'), join(place, 'worksync.db')),
    service(place) {
      for (const end of ['', '.key']) copyFileSync(file + end, place + end);
    },
    keys,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
