import { expect, onTestFinished, test } from 'vitest';
import { soleHolder } from '../../../src/cluster/holder.ts';
import { openPartition } from '../../../src/daemon/partition.ts';
import type { PartitionOptions } from '../../../src/daemon/partition-parts.ts';
import type { Parts } from '../../../src/daemon/parts.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { markRunning, wasUncleanShutdown } from '../../../src/sync/quota/slot.ts';
import { openTestInstallation } from '../../support/store.ts';
import { createTravellingClock } from '../../support/travelling-clock.ts';

const MINUTE = 60_000;
const QUOTA = { requests: 10, window: 15 * MINUTE, burst: 4, burstWindow: MINUTE, share: 1, concurrency: 4 };

test('a workspace that cannot be opened leaves no timer behind, and the database says as before that a process died', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const store = await installation.store('shop');
  await store.commit((query) => markRunning(query));
  const clock = createTravellingClock();
  const options: Partial<PartitionOptions> = {
    config: { name: 'shop', quota: QUOTA, workspace: { id: 'current' } } as PartitionOptions['config'],
    address: {
      baseUrl: 'https://workspace.example',
      apiKey: () => {
        throw new Error('the file of the key cannot be read');
      },
    },
    lease: soleHolder.leaseOf('shop') as PartitionOptions['lease'],
    installation,
    ledgerClock: async () => clock,
  };
  const parts: Partial<Parts> = {
    ...{ clock, random: systemRandom(), logger: silentLogger },
    metrics: { forWorkspace: () => silentMeter } as unknown as Parts['metrics'],
  };
  await expect(openPartition(options as PartitionOptions, parts as Parts)).rejects.toThrow('the file of the key');
  expect(clock.pending).toBe(0);
  expect(await wasUncleanShutdown(store.query)).toBe(true);
});
