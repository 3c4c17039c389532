import { describe, expect, it } from 'vitest';
import {
  judgeArrivals,
  judgeClock,
  judgeDatabase,
  judgeDisk,
  judgeOthers,
  judgeQuota,
  judgeVersion,
} from '../../../src/admin/check-facts.ts';
import { DatabaseFault } from '../../../src/platform/database/database-fault.ts';

const MINUTE = 60_000;
const MIB = 1024 * 1024;
const NOW = Date.UTC(2026, 10, 20, 12);

/** Whatever is not right says what to do. */
function told(found: { level: string; message: string; hint?: string }): string {
  expect(found.hint === undefined).toBe(found.level === 'ok');
  return `${found.level}: ${found.message}`;
}

describe('the clock', () => {
  const skew = (server: string, ahead: number) => ({ server, ahead });

  it.each([
    [0, 'ok: agrees with 1 server'],
    [30_000, 'ok: agrees with 1 server'],
    [31_000, 'warning: ours is 31 s behind the clock of a'],
    [-31_000, 'warning: ours is 31 s ahead of the clock of a'],
    [5 * MINUTE, 'warning: ours is 5 min behind the clock of a'],
    [6 * MINUTE, 'error: ours is 6 min behind the clock of a'],
  ])('%i ms apart', (ahead, expected) => {
    expect(judgeClock([skew('a', ahead)]).map(told)).toEqual([expected]);
  });

  it('is not ours that is wrong where most servers agree with it', () => {
    const [found, ...more] = judgeClock([skew('a', 0), skew('b', 0), skew('c', 60 * MINUTE)]);
    expect(more).toEqual([]);
    expect(found).toMatchObject({ level: 'warning', hint: expect.stringContaining('operator of this server') });
  });

  it('is not judged where nobody told the time', () => expect(judgeClock([])).toEqual([]));
});

describe('the disk', () => {
  it.each([
    [2_048 * MIB, 1, 'ok'],
    [1_023 * MIB, 1, 'warning'],
    [2_048 * MIB, 700 * MIB, 'warning'],
    [2_048 * MIB, 600 * MIB, 'ok'],
    [99 * MIB, 1, 'error'],
  ])('%i bytes free beside a database of %i: %s', (free, database, level) => {
    const found = judgeDisk({ folder: '/data', free, database });
    expect(told(found)).toMatch(new RegExp(`^${level}: .* free at /data$`));
  });
});

describe('the database', () => {
  it('has its size, or its fault with the remedy of its kind', () => {
    const file = '/data/a.db';
    const judge = (fault?: DatabaseFault, keptLog?: number) => judgeDatabase({ file, size: 2_000_000, fault, keptLog });
    expect(told(judge())).toBe('ok: /data/a.db: 2.0 MB, no damage known');
    expect(told(judge(undefined, 80_000_000))).toContain('warning: /data/a.db: another program reads it on and on');
    const damaged = judge(new DatabaseFault('corrupt', file, 'page 3 is damaged'));
    expect(told(damaged)).toBe('error: database_corrupt: /data/a.db: page 3 is damaged');
    const gone = judge(new DatabaseFault('gone', file, 'it was moved'));
    expect(gone.hint).toContain('put the file back');
  });
});

describe('the version', () => {
  it.each([
    ['26.1.0', 'ok'],
    ['22.19.0', 'ok'],
    ['22.18.9', 'error'],
    ['20.11.1', 'error'],
  ])('of Node %s: %s', (node, level) => {
    expect(told(judgeVersion('1.2.3', node))).toBe(`${level}: worksync 1.2.3 on Node ${node}`);
  });
});

describe('the quota', () => {
  const window = (length: number, cap: number | null, used: number) => ({
    ...{ window: length, cap, used, usedByBackground: 0, usedByBackfill: 0 },
    ...{ backgroundLimit: null, backfillLimit: null },
  });
  const judge = (used: number, burst: number, paused: { until: number; code: 'unauthorized'; reason: string } | null) =>
    judgeQuota(
      'a: workspace',
      {
        ...{ long: window(15 * MINUTE, 200, used), burst: window(MINUTE, 40, burst), paused },
        nextForPeopleAt: NOW + 90_000,
      },
      NOW,
    );

  it('has requests left in both windows, or none in one', () => {
    expect(told(judge(50, 3, null))).toBe(
      'ok: quota: 150 of 200 requests left in 15 min, 37 of 40 requests left in 1 min',
    );
    const used = judge(200, 3, null);
    expect(told(used)).toMatch(/^warning: quota: 0 of 200/);
    expect(used.hint).toContain('Wait 1 min');
    expect(told(judge(3, 41, null))).toMatch(/^warning: .* 0 of 40/);
  });

  it('is paused', () => {
    const paused = judge(1, 1, { until: NOW + 5 * MINUTE, code: 'unauthorized', reason: 'the key was refused' });
    expect(told(paused)).toMatch(/^warning: .*; nothing is sent for 5 min: the key was refused$/);
    expect(paused.hint).toContain('workspace.apiKey');
  });

  it('has no limit', () => {
    const free = { long: window(1, null, 0), burst: window(1, null, 0), paused: null, nextForPeopleAt: NOW };
    expect(told(judgeQuota('a', free, NOW))).toBe('ok: quota: no limit');
  });
});

describe('others with the same workspace', () => {
  const refused = (ago: number, others: number | null) =>
    ({ at: NOW - ago, window: 'long', othersLong: others, othersBurst: null }) as const;

  it('show by a refusal of the last hour', () => {
    expect(judgeOthers('a', refused(10 * MINUTE, 25), NOW).map(told)).toEqual([
      'warning: others use this workspace: at least 25 requests were theirs when it refused one of ours 10 min ago',
    ]);
    expect(judgeOthers('a', refused(10 * MINUTE, 25), NOW)[0]?.hint).toContain('second worksync');
  });

  it.each([
    ['no refusal', null],
    ['an old one', refused(61 * MINUTE, 25)],
    ['one without others', refused(MINUTE, 0)],
    ['one that tells nothing', refused(MINUTE, null)],
  ])('not by %s', (_, last) => expect(judgeOthers('a', last, NOW)).toEqual([]));
});

describe('what came in', () => {
  const webhooks = { takesWebhooks: true, polls: false, lastWebhookAt: null, lastRefused: null };
  const refusedAt = (at: number, code: string) => ({
    ...webhooks,
    lastWebhookAt: NOW - MINUTE,
    lastRefused: { at, code },
  });

  it.each([
    ['ok: last webhook 1 min ago', { ...webhooks, lastWebhookAt: NOW - MINUTE }],
    ['warning: no recent webhook', webhooks],
    ['ok: no recent webhook', { ...webhooks, polls: true }],
    ['ok: takes no webhooks', { ...webhooks, takesWebhooks: false }],
    [
      'warning: last webhook 1 min ago; one was refused 0 s ago: signature_mismatch',
      refusedAt(NOW, 'signature_mismatch'),
    ],
    ['warning: last webhook 1 min ago; one was refused 0 s ago: odd', refusedAt(NOW, 'odd')],
    ['ok: last webhook 1 min ago', refusedAt(NOW - 2 * MINUTE, 'signature_mismatch')],
  ])('%s', (expected, arrivals) => {
    expect(told(judgeArrivals(arrivals, NOW))).toBe(expected);
  });
});
