import { describe, expect, it } from 'vitest';
import { createLagWatch } from '../../../src/admin/lag.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';

describe('the lag of a workspace', () => {
  it('is unknown until a delivery led to a write', () => {
    expect(createLagWatch(createTravellingClock()).report()).toBeNull();
  });

  it('tells what half of the deliveries, and 95 of 100, did not exceed', () => {
    const watch = createLagWatch(createTravellingClock());
    for (let lag = 100; lag >= 1; lag--) watch.note(lag);
    expect(watch.report()).toEqual({ count: 100, p50: 50, p95: 95 });
  });

  it('forgets what is a day old, and of very many the first', async () => {
    const clock = createTravellingClock();
    const watch = createLagWatch(clock);
    for (let round = 0; round < 2_000; round++) watch.note(1_000);
    watch.note(5);
    expect(watch.report()).toEqual({ count: 2_000, p50: 1_000, p95: 1_000 });
    await clock.advance(86_400_001);
    watch.note(7);
    expect(watch.report()).toEqual({ count: 1, p50: 7, p95: 7 });
  });
});
