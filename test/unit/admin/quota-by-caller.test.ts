import { afterEach, expect, test } from 'vitest';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import { quotaByCaller, REST } from '../../../src/admin/quota-by-caller.ts';
import { CALLERS, keyCaller, tokenCaller } from '../../../src/model/caller.ts';
import type { Lane } from '../../../src/model/lane.ts';
import { silentLogger } from '../../../src/platform/lib/logger.ts';
import { silentMeter } from '../../../src/platform/lib/meter.ts';
import { addGatewayToken } from '../../../src/store/gateway-tokens.ts';
import { createThrottle } from '../../../src/sync/quota/throttle.ts';
import { createTravellingClock } from '../../support/clocks/travelling-clock.ts';
import { type OpenedStore, openStore } from '../../support/harness/store.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const random = { float: () => 0.5, uuid: () => 'none', bytes: (length: number) => Buffer.alloc(length) };

let store: OpenedStore | undefined;
afterEach(async () => {
  await store?.close();
});

async function bench() {
  const opened = await openStore({ file: ':memory:' });
  store = opened;
  const clock = createTravellingClock();
  const quota = { requests: 200, window: 15 * MINUTE, burst: 0, burstWindow: MINUTE, share: 1, concurrency: 8 };
  const deps = { store: opened, clock, random, logger: silentLogger, meter: silentMeter, quota };
  const throttle = await createThrottle(deps);
  const send = async (lane: Lane, caller?: string, status = 200, retryAfter?: number) => {
    const slot = await throttle.acquire({ lane, caller, due: 1 });
    await opened.commit((query) => slot.record(query));
    await slot.complete({ status, retryAfter });
  };
  const ask = () => quotaByCaller({ store: opened, throttle } as unknown as OpenWorkspace, clock);
  return { store: opened, clock, send, ask };
}

const of = (requests: number, refused = 0) => ({ requests, refused });

test('says who used it in the window, in a day and in a week: by lane, command, token and key', async () => {
  const { store: opened, clock, send, ask } = await bench();
  await addGatewayToken(opened.query, { id: 'gwt_1', digest: 'd', description: 'CI of acme', now: clock.now() });
  for (let sent = 0; sent < 4; sent++) await send('mirror');
  await clock.advance(30 * HOUR);
  for (let sent = 0; sent < 3; sent++) await send('interactive', tokenCaller('gwt_1'));
  await clock.advance(HOUR);
  await send('mirror');
  await send('interactive', CALLERS.command);
  await send('interactive', keyCaller('abcdef0123456789'), 404);
  const { callers, series, cap, window } = await ask();
  expect({ cap, window }).toEqual({ cap: 200, window: 15 * MINUTE });
  expect(callers).toEqual([
    {
      ...{ caller: 'mirror', kind: 'daemon', name: 'daemon: pull requests', isEstimate: false },
      ...{ window: of(1), day: of(1), week: of(5) },
    },
    {
      ...{ caller: 'token:gwt_1', kind: 'token', name: 'gateway token "CI of acme" (gwt_1)', isEstimate: false },
      ...{ window: of(0), day: of(3), week: of(3) },
    },
    {
      ...{ caller: 'command', kind: 'command', name: 'commands', isEstimate: false },
      ...{ window: of(1), day: of(1), week: of(1) },
    },
    {
      ...{ caller: 'key:abcdef012345', kind: 'key', name: 'key with SHA-256 abcdef012345…', isEstimate: false },
      ...{ window: of(1), day: of(1), week: of(1) },
    },
  ]);
  // A day in quarters, without what is older.
  expect(series.map(({ caller, requests }) => [caller, requests])).toEqual([
    ['token:gwt_1', 3],
    ['command', 1],
    ['key:abcdef012345', 1],
    ['mirror', 1],
  ]);
  expect(new Set(series.map(({ since }) => since % (15 * MINUTE)))).toEqual(new Set([0]));
});

test('others are estimated from refusals, and named last', async () => {
  const { clock, send, ask } = await bench();
  expect((await ask()).lastRefusal).toBeNull();
  for (let sent = 0; sent < 50; sent++) await send('mirror');
  await send('mirror', undefined, 429, 600);
  const now = await ask();
  const others = { caller: 'others', kind: 'others', isEstimate: true };
  expect(now.callers).toMatchObject([
    { caller: 'mirror', window: of(51, 1), day: of(51, 1) },
    { ...others, window: of(150), day: of(150), week: of(150) },
  ]);
  expect(now.lastRefusal).toMatchObject({ window: 'long', othersLong: 150 });
  await clock.advance(HOUR);
  expect((await ask()).callers.at(-1)).toMatchObject({ ...others, window: of(0), day: of(150) });
});

test('of many callers the series tells twelve apart', async () => {
  const { send, ask } = await bench();
  for (let made = 0; made < 20; made++) await send('interactive', keyCaller(`${made}`.padStart(12, '0')));
  await send('mirror');
  await send('mirror');
  const { series, callers } = await ask();
  expect(callers).toHaveLength(21);
  expect(series).toHaveLength(13);
  expect(series).toContainEqual(expect.objectContaining({ caller: REST, requests: 9 }));
  expect(series).toContainEqual(expect.objectContaining({ caller: 'mirror', requests: 2 }));
});
