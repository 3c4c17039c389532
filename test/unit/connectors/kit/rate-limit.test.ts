import { describe, expect, it } from 'vitest';
import { type Budget, createBudget, type RateLimitUse, rateFrom } from '../../../../src/connectors/kit/rate-limit.ts';
import { SyncError } from '../../../../src/model/errors/sync-error.ts';
import { forPurpose } from '../../../../src/platform/lib/purpose.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

const MINUTE = 60_000;

function setUp() {
  const clock = createTravellingClock();
  const budget = createBudget(clock, (headers) => rateFrom(headers, 'x-ratelimit'));
  const report = (remaining: number, inMinutes: number, ahead = 0) => {
    const now = clock.now() + ahead;
    budget.update({
      status: 200,
      headers: {
        date: new Date(now).toUTCString(),
        'x-ratelimit-limit': '5000',
        'x-ratelimit-remaining': String(remaining),
        'x-ratelimit-reset': String(Math.floor((now + inMinutes * MINUTE) / 1_000)),
      },
      body: Buffer.alloc(0),
    });
  };
  return { clock, budget, report };
}

function refusal(budget: Budget, use: RateLimitUse): SyncError | undefined {
  try {
    budget.require(use);
    return undefined;
  } catch (error) {
    return error as SyncError;
  }
}

describe('the budget of a connection', () => {
  it('allows everything before the first answer', () => {
    const { budget } = setUp();
    for (const use of ['fetch', 'poll', 'background'] as const) expect(refusal(budget, use)).toBeUndefined();
  });

  it.each([
    [5_000, []],
    [2_501, []],
    [2_500, ['background']],
    [501, ['background']],
    [500, ['background', 'poll']],
    [1, ['background', 'poll']],
    [0, ['background', 'poll', 'fetch']],
  ])('with %i of 5000 requests left, it refuses %j', (remaining, refused) => {
    const { budget, report } = setUp();
    report(remaining, 30);
    const uses = (['background', 'poll', 'fetch'] as const).filter((use) => refusal(budget, use));
    expect(uses).toEqual(refused);
  });

  it('gives a restore a fifth of the limit in each period, and leaves half of the rest', async () => {
    const { clock, budget, report } = setUp();
    report(5_000, 30);
    const restored = () => forPurpose('restore', async () => refusal(budget, 'fetch'));
    for (let request = 1; request <= 1_000; request++) expect(await restored()).toBeUndefined();
    expect(await restored()).toMatchObject({ code: 'rate_limited', retryAfter: expect.any(Number) });
    expect(refusal(budget, 'background')).toBeUndefined();
    await clock.advance(31 * MINUTE);
    report(5_000, 30);
    expect(await restored()).toBeUndefined();
    report(2_500, 30);
    expect(await restored()).toMatchObject({ code: 'rate_limited' });
  });

  it('refuses for at most an hour, even if the reset is decades away', async () => {
    const { clock, budget, report } = setUp();
    report(0, 74 * 525_600);
    expect(refusal(budget, 'fetch')?.retryAfter).toBe(60 * MINUTE);
    await clock.advance(60 * MINUTE);
    expect(refusal(budget, 'background')).toBeUndefined();
    report(4_000, 74 * 525_600 - 60);
    expect(refusal(budget, 'background')).toBeUndefined();
  });

  it("refuses until the reset by the vendor's clock, and then allows everything", async () => {
    const { clock, budget, report } = setUp();
    report(0, 30, 7 * MINUTE);
    const error = refusal(budget, 'fetch');
    expect(error).toBeInstanceOf(SyncError);
    expect(error?.code).toBe('rate_limited');
    expect(error?.status).toBeUndefined();
    expect(error?.retryAfter).toBeGreaterThanOrEqual(30 * MINUTE - 1_000);
    expect(error?.retryAfter).toBeLessThanOrEqual(30 * MINUTE + 2_000);
    await clock.advance(31 * MINUTE);
    expect(refusal(budget, 'background')).toBeUndefined();
  });

  it('ignores an answer that another one has overtaken', () => {
    const { budget, report } = setUp();
    report(400, 30);
    report(600, 30);
    expect(refusal(budget, 'poll')).toBeDefined();
    report(4_999, 90);
    expect(refusal(budget, 'background')).toBeUndefined();
  });

  it('ignores headers that are absent, no numbers, or of a server without a limit', () => {
    const { budget } = setUp();
    const good = { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '99999999999' };
    for (const headers of [
      {},
      { ...good, 'x-ratelimit-limit': '0' },
      { ...good, 'x-ratelimit-limit': '-1' },
      { ...good, 'x-ratelimit-remaining': 'none' },
      { ...good, 'x-ratelimit-reset': '' },
    ])
      budget.update({ status: 200, headers: headers as Record<string, string>, body: Buffer.alloc(0) });
    expect(refusal(budget, 'background')).toBeUndefined();
  });
});
