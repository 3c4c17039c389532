import { describe, expect, it, onTestFinished } from 'vitest';
import { type Lease, type LeaseHolder, soleHolder } from '../../../src/cluster/lease-holder.ts';
import type { Partition } from '../../../src/daemon/partition.ts';
import { createWorkspaces, type Workspaces } from '../../../src/daemon/workspaces.ts';
import type { ErrorCode } from '../../../src/model/errors/codes.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import type { WorkspaceConfig } from '../../../src/platform/config/schema.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { createTravellingClock, type TravellingClock } from '../../support/travelling-clock.ts';

const MINUTE = 60_000;

interface World {
  readonly workspaces: Workspaces;
  readonly clock: TravellingClock;
  /** What keeps every workspace from being opened, from now on. */
  fails(code: ErrorCode | undefined): void;
  /** Each try to open one, by its name. */
  readonly tries: string[];
  readonly told: string[];
  /** From now on this process owns those, and is told so. */
  owns(names: readonly string[]): Promise<void>;
}

function openWorld(): World {
  const clock = createTravellingClock();
  const [tries, told]: [string[], string[]] = [[], []];
  let fault: ErrorCode | undefined;
  let leases = new Map<string, Lease>();
  const holder: LeaseHolder = { ...soleHolder, leaseOf: (name) => leases.get(name) };
  const logger = {
    ...silentLogger,
    error: (fields: object) => void told.push(`${(fields as { error: SyncError }).error.code}`),
    info: (_fields: object, text: string) => void told.push(text),
  };
  const workspaces = createWorkspaces({
    ...{ holder, logger, clock, random: systemRandom() },
    async open(config) {
      tries.push(config.name);
      if (fault) throw new SyncError(fault, 'a fault of the test');
      const partition: Partial<Partition> = { name: config.name, config, start: () => undefined, stop: async () => {} };
      return { partition: partition as Partition };
    },
  });
  onTestFinished(() => workspaces.stop());
  return {
    ...{ workspaces, clock, tries, told },
    fails(code) {
      fault = code;
    },
    owns(names) {
      leases = new Map(names.map((name) => [name, { isTrusted: () => true }]));
      return workspaces.followLeases();
    },
  };
}

const configOf = (name: string) => ({ name }) as WorkspaceConfig;
const wanted = { workspaces: [configOf('web'), configOf('shop')], broken: [] };

describe('a workspace that this process owns and could not open', () => {
  it('is opened by itself when the reason has passed, although nothing else happens', async () => {
    const { workspaces, clock, fails, owns, told } = openWorld();
    await workspaces.apply(wanted);
    fails('database_away');
    await owns(['web', 'shop']);
    expect(workspaces.partitions()).toEqual([]);
    await clock.advance(10 * MINUTE);
    fails(undefined);
    await clock.advance(MINUTE);
    expect(workspaces.partitions().map(({ name }) => name)).toEqual(['web', 'shop']);
    expect(workspaces.broken().size).toBe(0);
    // Once for each of the two: it was tried often, and the reason was the same.
    expect(told.filter((each) => each === 'database_away')).toHaveLength(2);
    expect(told.filter((each) => each.endsWith('is open again'))).toHaveLength(2);
  });

  it('is tried soon at first, and once a minute or more seldom in the long run', async () => {
    const { workspaces, clock, fails, owns, tries } = openWorld();
    await workspaces.apply(wanted);
    fails('disk_full');
    await owns(['web']);
    await clock.advance(1_000);
    expect(tries.length).toBeGreaterThanOrEqual(2);
    await clock.advance(30 * MINUTE);
    const before = tries.length;
    await clock.advance(60 * MINUTE);
    // Back-offs are drawn from 0 to a minute.
    expect(tries.length - before).toBeGreaterThan(60);
    expect(tries.length - before).toBeLessThan(240);
  });

  it('is tried no more when somebody else owns it, after the end, or where trying does not help', async () => {
    for (const end of ['lease', 'stop', 'never'] as const) {
      const { workspaces, clock, fails, owns, tries } = openWorld();
      await workspaces.apply(wanted);
      fails(end === 'never' ? 'database_corrupt' : 'database_away');
      await owns(['web']);
      if (end === 'lease') await owns([]);
      if (end === 'stop') await workspaces.stop();
      const before = tries.length;
      await clock.advance(10 * MINUTE);
      expect([end, tries.length - before, clock.pending]).toEqual([end, 0, 0]);
    }
  });

  it('holds up no other one', async () => {
    const { workspaces, fails, owns } = openWorld();
    await workspaces.apply(wanted);
    fails('database_away');
    await owns(['web']);
    fails(undefined);
    await owns(['web', 'shop']);
    expect(workspaces.partitions().map(({ name }) => name)).toEqual(['web', 'shop']);
  });
});
