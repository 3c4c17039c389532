import { describe, expect, it } from 'vitest';
import { describeStatus } from '../../../src/cli/status.ts';
import { CODES } from '../../../src/errors/codes.ts';
import { SyncError } from '../../../src/errors/sync-error.ts';
import { WARNINGS } from '../../../src/operator/verdict.ts';
import { EMPTY, NOW, statusWith } from '../../support/web.ts';

type Parts = NonNullable<Parameters<typeof statusWith>[0]>;

/** What a half-broken day looks like: little is synced, much is held, both sources are dead. */
const ACTIVITY = {
  ...{ lastDeliveryAt: NOW, units: 1, walking: 0, lastPollAt: NOW, failingUnits: 1, fetches: 0, lastSweepAt: null },
  missingUnits: [],
};
const unreachable = { code: 'unreachable', message: 'no route', hint: 'check it', unit: null, at: NOW };
const DEAD: Parts = {
  connections: ['github', 'jira'].map((name) => ({
    ...{ name, connector: name, webhookPath: null, schedule: 'every 5 min', hooks: null, names: [] },
  })),
  stored: {
    ...EMPTY,
    pullRequests: { total: 260, waiting: 236 },
    links: { total: 64, waiting: 58 },
    deliveries: { ...EMPTY.deliveries, quarantined: 3 },
    changes: { ...EMPTY.changes, byState: { pending: 200, sending: 0, unknown: 0, held: 94 } },
    connections: ['github', 'jira'].map((connection) => ({ ...ACTIVITY, connection, failure: unreachable })),
  },
};

describe('the verdict', () => {
  it('of a workspace that is idle, or only waits for the quota, is ok', () => {
    expect(statusWith().workspaces[0]).toMatchObject({ verdict: 'ok', causes: [] });
    expect(statusWith().verdict).toBe('ok');
  });

  it('says what is synced of what should be, and everything that is wrong, in one sentence', () => {
    const [workspace] = statusWith(DEAD).workspaces;
    expect(workspace).toMatchObject({
      verdict: 'degraded',
      summary:
        '24 of 260 pull requests synced, 6 of 64 links; 2 connections failing (github: unreachable, jira: unreachable); ' +
        '94 changes held; 3 deliveries quarantined',
    });
    expect(workspace?.causes.map(({ code, count }) => [code, count])).toEqual([
      ['connections_failing', 2],
      ['changes_held', 94],
      ['deliveries_quarantined', 3],
    ]);
  });

  it('is blocked by whatever keeps everything from being sent or stored, and that comes first', () => {
    const halt = new SyncError('database_corrupt', 'page 7 is damaged');
    const { verdict, workspaces } = statusWith({ ...DEAD, halt });
    expect([verdict, workspaces[0]?.causes[0]]).toMatchObject(['blocked', { code: 'database_corrupt', count: 1 }]);
    expect(workspaces[0]?.summary).toContain('links; database_corrupt: page 7 is damaged; 2 connections');
  });

  it('of the whole is the worst of all, and blocked while the process cannot store webhooks', () => {
    expect(statusWith({}, { ready: false }).verdict).toBe('blocked');
    const broken = [{ name: 'other', code: 'config_invalid', message: 'm', hint: 'h' }];
    expect(statusWith({}, { broken }).verdict).toBe('blocked');
    expect(statusWith(DEAD).verdict).toBe('degraded');
  });

  it('has a code of its own for each warning, a remedy, and none that an error has', () => {
    const codes = WARNINGS.map(({ code }) => code);
    expect(new Set(codes).size).toBe(codes.length);
    expect(codes.filter((code) => code in CODES)).toEqual([]);
    for (const { hint } of WARNINGS) expect(hint).toMatch(/^[A-Z].*\.$/);
  });
});

describe('worksync status', () => {
  it('never says "running" alone where something is wrong', () => {
    const text = describeStatus(statusWith(DEAD));
    expect(text).toMatch(/^worksync 0\.1\.0, DEGRADED, up for /);
    expect(text).toContain(
      '  state       DEGRADED, running\n    2 connections failing (github: unreachable, jira: unreachable). ',
    );
    expect(text).toContain('    94 changes held. List them with "worksync held"');
    expect(text).toContain('  synced      24 of 260 pull requests, 6 of 64 links\n');
    expect(describeStatus(statusWith())).toContain('  state       ok, running\n');
  });

  it('is never NOT READY without a reason', () => {
    const full = statusWith({}, { ready: false, components: { server: 'ok', disk: 'disk_full' } });
    expect(describeStatus(full)).toMatch(/^worksync 0\.1\.0, NOT READY \(disk: disk_full\), up for/);
    expect(describeStatus(statusWith({}, { ready: false, components: {} }))).toContain('NOT READY (starting)');
  });

  it('shows a workspace that did not start, each place on a line of its own', () => {
    const broken = [
      { name: 'other', code: 'config_invalid', message: 'a.yaml:1:1: x\na.yaml:2:1: y', hint: 'Correct it.' },
    ];
    expect(describeStatus(statusWith({}, { broken }))).toContain(
      'workspace other\n  state       BLOCKED config_invalid: Correct it.\n    a.yaml:1:1: x\n    a.yaml:2:1: y',
    );
  });
});
