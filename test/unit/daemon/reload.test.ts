import { expect, test } from 'vitest';
import { createReload } from '../../../src/daemon/reload.ts';
import type { Workspaces } from '../../../src/daemon/workspaces.ts';
import type { LoadedConfig } from '../../../src/platform/config/load.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';

test('logs a configuration that could not be applied, and applies the next one', async () => {
  const errors: unknown[] = [];
  const logger = { ...silentLogger, error: (fields: unknown) => void errors.push(fields) };
  const config: LoadedConfig = { workspaces: [], broken: [], secrets: [], warnings: [], secretSources: [] };
  let applied = 0;
  const workspaces: Pick<Workspaces, 'apply' | 'partitions'> = {
    partitions: () => [],
    async apply() {
      if (++applied === 1) throw new Error('a fault of ours');
      return { opened: [], changed: [], closed: [] };
    },
  };
  const source = { load: () => config, stamp: () => '', checkEvery: 60_000 };
  const clock = createTravellingClock();
  const reload = createReload({ source, workspaces, clock, logger, scrubber: createScrubber() });
  await reload.now();
  expect(errors).toMatchObject([{ error: { message: 'a fault of ours' } }]);
  await reload.now();
  expect(applied).toBe(2);
  await reload.stop();
});
