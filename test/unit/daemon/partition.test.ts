import { expect, onTestFinished, test } from 'vitest';
import { soleHolder } from '../../../src/cluster/lease-holder.ts';
import type { DaemonContext } from '../../../src/daemon/daemon-context.ts';
import { openPartition, type PartitionInput, resumeAfterKeyChange } from '../../../src/daemon/partition.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { markRunning, wasUncleanShutdown } from '../../../src/sync/quota/slot.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

const MINUTE = 60_000;
const QUOTA = { requests: 10, window: 15 * MINUTE, burst: 4, burstWindow: MINUTE, share: 1, concurrency: 4 };

test('a workspace that cannot be opened leaves no timer, and the mark of an unclean shutdown stays', async () => {
  const installation = await openTestInstallation({ file: ':memory:' });
  onTestFinished(() => installation.close());
  const store = await installation.store('shop');
  await store.commit((query) => markRunning(query));
  const clock = createTravellingClock();
  const input: Partial<PartitionInput> = {
    config: { name: 'shop', quota: QUOTA, workspace: { id: 'current' } } as PartitionInput['config'],
    address: {
      baseUrl: 'https://workspace.example',
      apiKey: () => {
        throw new Error('the file of the key cannot be read');
      },
    },
    lease: soleHolder.leaseOf('shop') as PartitionInput['lease'],
  };
  const daemon: Partial<DaemonContext> = {
    clock,
    random: systemRandom(),
    logger: silentLogger,
    metrics: { forWorkspace: () => silentMeter } as unknown as DaemonContext['metrics'],
    installation,
    ledgerClock: async () => clock,
  };
  const opened = openPartition(daemon as DaemonContext, input as PartitionInput);
  await expect(opened).rejects.toThrow('the file of the key');
  expect(clock.pending).toBe(0);
  expect(await wasUncleanShutdown(store.query)).toBe(true);
});

const KEY = 'wsk_of_a_test';
const WORKSPACE = { url: 'https://workspace.example/api/v1', id: 'current' };

test('the throttle resumes after a change of the key, the address or the workspace, and the key is not stored', async () => {
  const store = await openTestStore();
  let resumed = 0;
  const throttle = {
    async resume() {
      resumed++;
    },
  };
  const resumes = async (key: string, workspace: { readonly url: string; readonly id: string }) => {
    const before = resumed;
    await resumeAfterKeyChange(store, throttle, key, workspace);
    return resumed > before;
  };
  expect(await resumes(KEY, WORKSPACE)).toBe(true);
  expect(await resumes(KEY, WORKSPACE)).toBe(false);
  expect(await resumes('wsk_another', WORKSPACE)).toBe(true);
  expect(await resumes(KEY, WORKSPACE)).toBe(true);
  expect(await resumes(KEY, { ...WORKSPACE, url: 'https://workspace.example/v1' })).toBe(true);
  expect(await resumes(KEY, { ...WORKSPACE, id: 'ws_2' })).toBe(true);
  expect(JSON.stringify(await store.query.selectFrom('meta').selectAll().execute())).not.toContain(KEY);
});
