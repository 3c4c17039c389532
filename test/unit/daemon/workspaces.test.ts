import { describe, expect, it, onTestFinished, test } from 'vitest';
import { type Lease, type LeaseHolder, soleHolder } from '../../../src/cluster/lease-holder.ts';
import type { DaemonContext } from '../../../src/daemon/daemon-context.ts';
import { createNotifications } from '../../../src/daemon/notifications.ts';
import { openPartition, type Partition, resumeAfterKeyChange } from '../../../src/daemon/partition.ts';
import { createWorkspaces } from '../../../src/daemon/workspaces.ts';
import type { ErrorCode } from '../../../src/model/errors.ts';
import { SyncError } from '../../../src/model/errors.ts';
import type { WorkspaceConfig } from '../../../src/platform/config/schema.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { silentLogger, silentMeter } from '../../../src/platform/lib/telemetry.ts';
import type { Installation } from '../../../src/store/installation/installation.ts';
import { createWakeSignals } from '../../../src/store/store-context.ts';
import { markRunning, wasUncleanShutdown } from '../../../src/sync/quota/slot.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { openTestInstallation } from '../../support/harness/store.ts';

const MINUTE = 60_000;

/** `attempts` has the name of a workspace for each attempt to open it, which fails as `fails` says. */
function openWorld() {
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
  async function open(config: WorkspaceConfig) {
    attempts.push(config.name);
    if (fault) throw new SyncError(fault, 'a fault of the test');
    const partition: Partial<Partition> = { name: config.name, config, start: () => undefined, stop: async () => {} };
    return { partition: partition as Partition };
  }
  const daemon = { logger, clock, random: systemRandom() } as unknown as DaemonContext;
  const workspaces = createWorkspaces(daemon, holder, open, async () => undefined);
  onTestFinished(() => workspaces.stop());
  return {
    workspaces,
    clock,
    attempts,
    logged,
    fails(code: ErrorCode | undefined) {
      fault = code;
    },
    owns(names: readonly string[]) {
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
});

describe('a partition', () => {
  const MINUTE = 60_000;
  const QUOTA = { requests: 10, window: 15 * MINUTE, burst: 4, burstWindow: MINUTE, share: 1, concurrency: 4 };

  test('a workspace that cannot be opened leaves no timer, and the mark of an unclean shutdown stays', async () => {
    const installation = await openTestInstallation({ file: ':memory:' });
    onTestFinished(() => installation.close());
    const store = await installation.store('shop');
    await store.commit((query) => markRunning(query));
    const clock = createTravellingClock();
    const config = { name: 'shop', quota: QUOTA, workspace: { id: 'current' } } as WorkspaceConfig;
    const address = {
      baseUrl: 'https://workspace.example',
      apiKey: () => {
        throw new Error('the file of the key cannot be read');
      },
    };
    const lease = soleHolder.leaseOf('shop') as Lease;
    const daemon: Partial<DaemonContext> = {
      clock,
      random: systemRandom(),
      logger: silentLogger,
      metrics: { forWorkspace: () => silentMeter } as unknown as DaemonContext['metrics'],
      installation,
      ledgerClock: async () => clock,
    };
    const opened = openPartition(daemon as DaemonContext, config, address, lease, createWakeSignals());
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
});

describe('notifications', () => {
  const SECOND = 1_000;

  /** A process that receives notifications, and whose reads of tokens may fail. */
  async function openReceiver() {
    const clock = createTravellingClock();
    const file = await openTestInstallation({ file: ':memory:' });
    let receive: (payload: string) => void = () => undefined;
    const sent: string[] = [];
    const asServer: Partial<NonNullable<Installation['asServer']>> = {
      notify: async (_channel, payload) => void sent.push(payload),
      async listen(_channel, call, missed) {
        receive = call;
        missed();
        return async () => undefined;
      },
    };
    const installation = { ...file, asServer: asServer as NonNullable<Installation['asServer']> };
    const tokens = { reads: 0, fails: false };
    const tokenBook = {
      async reread() {
        tokens.reads++;
        if (tokens.fails) throw new Error('the database is away');
      },
    };
    const daemon = { installation, clock, logger: silentLogger, tokenBook } as unknown as DaemonContext;
    const notifications = createNotifications(daemon, () => undefined);
    onTestFinished(async () => {
      await notifications.stop();
      await file.close();
    });
    notifications.start();
    await clock.advance(0);
    return { clock, tokens, notifications, sent, receive: (payload: string) => receive(payload) };
  }

  it('reads tokens once a minute without a notification, because its sender may have ended', async () => {
    const { clock, tokens } = await openReceiver();
    const before = tokens.reads;
    await clock.advance(600 * SECOND);
    expect(tokens.reads - before).toBeGreaterThanOrEqual(9);
    expect(tokens.reads - before).toBeLessThanOrEqual(10);
  });

  it('reads tokens again each second after a failed read, because one may be revoked', async () => {
    const { clock, tokens, receive } = await openReceiver();
    tokens.fails = true;
    receive('tokens');
    await clock.advance(5 * SECOND);
    tokens.fails = false;
    const before = tokens.reads;
    expect(before).toBeGreaterThanOrEqual(5);
    await clock.advance(10 * SECOND);
    expect(tokens.reads - before).toBe(1);
  });
});

describe('a wrong configuration', () => {
  test.each([
    ['with the name of an open workspace leaves it open', { name: 'web', file: 'copy.yaml' }, true],
    ['with the file of an open workspace leaves it open', { name: 'unknown', file: 'web.yaml' }, true],
    ['with neither does not, as the workspace has no other', { name: 'unknown', file: 'copy.yaml' }, false],
  ])('%s', async (_what, wrong, stays) => {
    const { workspaces, owns } = openWorld();
    const web = { name: 'web', file: 'web.yaml' } as WorkspaceConfig;
    await owns(['web']);
    await workspaces.apply({ workspaces: [web], broken: [] });
    const error = new SyncError('config_invalid', 'a fault of the test');
    await workspaces.apply({ workspaces: [], broken: [{ ...wrong, error }] });
    expect(workspaces.partitions().map(({ name }) => name)).toEqual(stays ? ['web'] : []);
    expect([...workspaces.rejected()]).toEqual(stays ? [['web', error]] : []);
    expect(workspaces.broken().get(wrong.name)).toBe(stays ? undefined : error);
  });
});
