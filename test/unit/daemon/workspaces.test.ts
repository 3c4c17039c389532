import { describe, expect, it, onTestFinished } from 'vitest';
import { type Lease, type LeaseHolder, soleHolder } from '../../../src/cluster/lease-holder.ts';
import type { Partition } from '../../../src/daemon/partition.ts';
import { createWorkspaces, type Workspaces } from '../../../src/daemon/workspaces.ts';
import type { ErrorCode } from '../../../src/model/errors/codes.ts';
import { SyncError } from '../../../src/model/errors/sync-error.ts';
import type { WorkspaceConfig } from '../../../src/platform/config/schema.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';
import { createTravellingClock, type TravellingClock } from '../../support/clocks/travelling-clock.ts';

const MINUTE = 60_000;

interface World {
  readonly workspaces: Workspaces;
  readonly clock: TravellingClock;
  /** Sets the failure of every later attempt to open. */
  fails(code: ErrorCode | undefined): void;
  /** The names of workspaces, once for each attempt to open. */
  readonly attempts: string[];
  readonly logged: string[];
  /** Sets the owned workspaces, and reports the change. */
  owns(names: readonly string[]): Promise<void>;
}

function openWorld(): World {
  const clock = createTravellingClock();
  const [attempts, logged]: [string[], string[]] = [[], []];
  let fault: ErrorCode | undefined;
  let leases = new Map<string, Lease>();
  const holder: LeaseHolder = { ...soleHolder, leaseOf: (name) => leases.get(name) };
  const logger = {
    ...silentLogger,
    error: (fields: object) => void logged.push(`${(fields as { error: SyncError }).error.code}`),
    info: (_fields: object, text: string) => void logged.push(text),
  };
  const workspaces = createWorkspaces({
    holder,
    logger,
    clock,
    random: systemRandom(),
    async open(config) {
      attempts.push(config.name);
      if (fault) throw new SyncError(fault, 'a fault of the test');
      const partition: Partial<Partition> = { name: config.name, config, start: () => undefined, stop: async () => {} };
      return { partition: partition as Partition };
    },
  });
  onTestFinished(() => workspaces.stop());
  return {
    workspaces,
    clock,
    attempts,
    logged,
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

describe('an owned workspace that could not be opened', () => {
  it('opens by itself when the reason has passed', async () => {
    const { workspaces, clock, fails, owns, logged } = openWorld();
    await workspaces.apply(wanted);
    fails('database_away');
    await owns(['web', 'shop']);
    expect(workspaces.partitions()).toEqual([]);
    await clock.advance(10 * MINUTE);
    fails(undefined);
    await clock.advance(MINUTE);
    expect(workspaces.partitions().map(({ name }) => name)).toEqual(['web', 'shop']);
    expect(workspaces.broken().size).toBe(0);
    // Logged once for each of the two, because the reason of each retry was the same.
    expect(logged.filter((each) => each === 'database_away')).toHaveLength(2);
    expect(logged.filter((each) => each.endsWith('is open again'))).toHaveLength(2);
  });

  it('is retried within a second at first, and about once a minute later', async () => {
    const { workspaces, clock, fails, owns, attempts } = openWorld();
    await workspaces.apply(wanted);
    fails('disk_full');
    await owns(['web']);
    await clock.advance(1_000);
    expect(attempts.length).toBeGreaterThanOrEqual(2);
    await clock.advance(30 * MINUTE);
    const before = attempts.length;
    await clock.advance(60 * MINUTE);
    // The backoff is drawn from 0 to 60 s.
    expect(attempts.length - before).toBeGreaterThan(60);
    expect(attempts.length - before).toBeLessThan(240);
  });

  it('is not retried after the lease moved, after a stop, or after a permanent failure', async () => {
    for (const end of ['lease', 'stop', 'never'] as const) {
      const { workspaces, clock, fails, owns, attempts } = openWorld();
      await workspaces.apply(wanted);
      fails(end === 'never' ? 'database_corrupt' : 'database_away');
      await owns(['web']);
      if (end === 'lease') await owns([]);
      if (end === 'stop') await workspaces.stop();
      const before = attempts.length;
      await clock.advance(10 * MINUTE);
      expect([end, attempts.length - before, clock.pending]).toEqual([end, 0, 0]);
    }
  });

  it('does not delay the others', async () => {
    const { workspaces, fails, owns } = openWorld();
    await workspaces.apply(wanted);
    fails('database_away');
    await owns(['web']);
    fails(undefined);
    await owns(['web', 'shop']);
    expect(workspaces.partitions().map(({ name }) => name)).toEqual(['web', 'shop']);
  });
});
