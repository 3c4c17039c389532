import { describe, expect, it } from 'vitest';
import type { HttpClient } from '../../../../src/platform/http/http-client.ts';
import { createServerClocks } from '../../../../src/platform/http/server-clocks.ts';
import { createTravellingClock } from '../../../support/clocks/travelling-clock.ts';

const START = Date.UTC(2026, 10, 20, 12);

function clocksOf(headers: () => Readonly<Record<string, string>>, wait = 0) {
  const clock = createTravellingClock({ start: START });
  const http: HttpClient = {
    async request() {
      if (wait > 0) await clock.advance(wait);
      return { status: 200, headers: headers(), body: Buffer.alloc(0) };
    },
    close: async () => undefined,
  };
  const clocks = createServerClocks(http, clock);
  const ask = (url = 'https://api.example:8443/x') => clocks.http.request({ method: 'GET', url, target: 'test' });
  return { clock, clocks, ask };
}

const date = (ms: number) => ({ date: new Date(START + ms).toUTCString() });

describe('the clocks of servers', () => {
  it.each([
    ['the same second', date(0), 0, 0],
    ['ahead', date(90_000), 0, 90_000],
    ['behind', date(-90_000), 0, -89_000],
    ['as late as the answer', date(8_000), 10_000, 0],
  ])('%s', async (_, headers, wait, ahead) => {
    const { clocks, ask } = clocksOf(() => headers, wait);
    await ask();
    expect(clocks.since(0)).toEqual([{ server: 'api.example:8443', ahead }]);
  });

  it.each([[{}], [{ date: 'noon' }], [{ ...date(90_000), age: '90' }]])('%j tells nothing', async (headers) => {
    const { clocks, ask } = clocksOf(() => headers);
    await ask();
    expect(clocks.since(0)).toEqual([]);
  });

  it('tells only of those that answered since', async () => {
    const { clock, clocks, ask } = clocksOf(() => date(0));
    await ask('https://early.example/');
    await clock.advance(5_000);
    const since = clock.monotonic();
    await ask('https://late.example/');
    expect(clocks.since(since).map(({ server }) => server)).toEqual(['late.example']);
  });
});
