import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, it, onTestFinished } from 'vitest';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';
import {
  SPECIFIED_QUOTA,
  startWorkspaceService,
  type TestServiceOptions,
} from '../../support/fakes/workspace-service.ts';
import { drawn } from '../../support/harness/depth.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { expectRefused } from './general.ts';
import { ask } from './target.ts';

const TASKS = '/workspaces/current/tasks?limit=1';

async function start(options: TestServiceOptions = {}) {
  const clock = createTravellingClock();
  const running = await startWorkspaceService({ clock, ...options });
  onTestFinished(() => running.close());
  const target = { url: running.url, token: running.apiKey };
  return { running, clock, get: () => ask(target, 'GET', TASKS), target };
}

export function describeQuota(): void {
  it('W66, W68, W70, W72 the 41st request of a minute: 429 with the exact message and Retry-After', async () => {
    const { clock, get } = await start();
    for (let n = 0; n < 40; n++) {
      expect((await get()).status).toBe(200);
      await clock.advance(100);
    }
    const refused = await get();
    // The first was 4.0 s ago: a slot is free after 56 s.
    expect([refused.status, refused.body]).toEqual([
      429,
      { code: 429, message: 'standard rate limit exceeded, retry in 56 seconds', errorCode: 'rate_limit_exceeded' },
    ]);
    expect(refused.headers.get('retry-after')).toBe('56');
    await clock.advance(55_999);
    const early = await get();
    expect([early.status, early.headers.get('retry-after')]).toEqual([429, '1']);
    await clock.advance(1);
    expect((await get()).status).toBe(200);
    expect((await get()).status).toBe(429);
  });

  it('W69 all keys of a workspace share the quota, and workspaces do not', async () => {
    const { running, get, target } = await start({ quota: { ...SPECIFIED_QUOTA, burst: 3 } });
    const { workspaceId, userId, service } = running;
    const second = (await service.mintKey({ workspaceId, userId, description: 'second' })).secret;
    await get();
    await ask(target, 'GET', TASKS, { as: second });
    await get();
    await expectRefused(ask(target, 'GET', TASKS, { as: second }), 429, 'rate_limit_exceeded');
    const other = await service.addWorkspace();
    const otherUser = await service.addUser({ workspaceId: other, name: 'O', role: 'owner' });
    const otherKey = await service.mintKey({ workspaceId: other, userId: otherUser, description: 'o' });
    expect((await ask(target, 'GET', TASKS, { as: otherKey.secret })).status).toBe(200);
    expect((await service.statistics()).requests.get(running.apiKeyId)).toEqual({ received: 2, refused: 0 });
  });

  it('W72 304 and 4xx count; 401 and 429 count nothing', async () => {
    const { clock, get, target, running } = await start({ quota: { ...SPECIFIED_QUOTA, burst: 6 } });
    const etag = (await get()).headers.get('etag')!;
    const statuses = [
      await ask(target, 'GET', TASKS, { headers: { 'if-none-match': etag } }),
      await ask(target, 'GET', '/nothing'),
      await ask(target, 'POST', '/workspaces/current/bugs', { body: '{' }),
      await ask(target, 'GET', TASKS, { headers: { 'x-service-api-version': '9' } }),
      await ask(target, 'GET', TASKS, { as: 'wsk_unknown' }),
      await ask(target, 'POST', '/workspaces/current/bugs', { body: { title: 'x', description: 'y'.repeat(2 ** 20) } }),
      await get(),
      await get(),
    ].map(({ status }) => status);
    expect(statuses).toEqual([304, 404, 400, 400, 401, 413, 429, 429]);
    await clock.advance(60_000);
    expect((await get()).status).toBe(200);
    expect((await running.service.statistics()).requests.get(running.apiKeyId)).toEqual({ received: 9, refused: 2 });
  });

  it('W72, W73 OAuth tokens count in neither window, and 0 lifts a limit', async () => {
    const unlimited = await start({ quota: { ...SPECIFIED_QUOTA, requests: 0, burst: 0 } });
    for (let n = 0; n < 60; n++) expect((await unlimited.get()).status).toBe(200);
    const { running, get, target } = await start({ quota: { ...SPECIFIED_QUOTA, burst: 2 } });
    for (let n = 0; n < 5; n++) expect((await ask(target, 'GET', TASKS, { as: running.oauthToken })).status).toBe(200);
    expect([(await get()).status, (await get()).status, (await get()).status]).toEqual([200, 200, 429]);
    expect((await ask(target, 'GET', TASKS, { as: running.oauthToken })).status).toBe(200);
  });

  it('W72 concurrent requests never get more than the cap', async () => {
    const { get } = await start();
    const replies = await Promise.all(Array.from({ length: 90 }, get));
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(40);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(50);
  });

  it.each([
    ['one row per request', { ...SPECIFIED_QUOTA, requests: 12, burst: 0 }, 0],
    ['one row per block', { ...SPECIFIED_QUOTA, requests: 400, burst: 0 }, 10],
  ])('W72 the counts survive a kill: %s', async (_what, quota, slack) => {
    const { running, clock, get } = await start({ quota });
    const used = 7;
    for (let n = 0; n < used; n++) expect((await get()).status).toBe(200);
    await clock.advance(1_000);
    const accepted = await acceptedBy({ clock, quota, file: await killedCopy(running.file) });
    expect(accepted).toBeLessThanOrEqual(quota.requests - used);
    expect(accepted).toBeGreaterThanOrEqual(quota.requests - used - slack);
  });

  it('W72 no sequence of requests, pauses, clock jumps and restarts exceeds a window', async () => {
    const folder = folderOfTest('law');
    let run = 0;
    const law = async (steps: Step[]) => {
      const accepted = await acceptedTimes(steps, join(folder, `${run++}.db`));
      expect(exceeds(accepted, SMALL.requests, SMALL.window)).toBe(false);
      expect(exceeds(accepted, SMALL.burst, SMALL.burstWindow)).toBe(false);
      expect(accepted.length > 0).toBe(steps.some(([what]) => what === 'get'));
    };
    await fc.assert(fc.asyncProperty(fc.array(STEP, { minLength: 5, maxLength: 25 }), law), { numRuns: drawn(25) });
  });
}

const SMALL = { requests: 8, window: 900, burst: 3, burstWindow: 60 };

type Step = ['get' | 'pause' | 'jump' | 'restart' | 'reboot', number];

const STEP: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.tuple(fc.constant('get' as const), fc.integer({ min: 1, max: 5 })) },
  { weight: 6, arbitrary: fc.tuple(fc.constant('pause' as const), fc.integer({ min: 1, max: 400 })) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('jump' as const), fc.integer({ min: -5_000, max: 5_000 })) },
  { weight: 2, arbitrary: fc.tuple(fc.constantFrom('restart' as const, 'reboot' as const), fc.constant(0)) },
);

/** When the service accepted requests, by a clock that no reboot or jump touches. */
async function acceptedTimes(steps: readonly Step[], file: string): Promise<number[]> {
  const clock = createTravellingClock();
  const options = { clock, quota: SMALL, file };
  let running = await startWorkspaceService(options);
  const accepted: number[] = [];
  const act: Record<Step[0], (times: number) => Promise<void> | void> = {
    pause: (ms) => clock.advance(ms),
    jump: (ms) => clock.jumpWall(ms),
    restart: () => again(() => {}),
    reboot: () => again(() => clock.reboot()),
    async get(times) {
      for (let n = 0; n < times; n++) {
        const { status } = await ask({ url: running.url, token: running.apiKey }, 'GET', TASKS);
        if (status === 200) accepted.push(clock.elapsed());
      }
    },
  };
  const again = async (meanwhile: () => void) => {
    await running.close();
    meanwhile();
    running = await startWorkspaceService(options);
  };
  try {
    for (const [what, times] of steps) await act[what](times);
  } finally {
    await running.close();
  }
  return accepted;
}

/** Copies the files of a running service, which are those that a kill now would leave. */
async function killedCopy(file: string): Promise<string> {
  const copy = join(folderOfTest('killed'), 'service.db');
  for (const suffix of ['', '-wal', '-shm']) await cp(file + suffix, copy + suffix);
  return copy;
}

/** Requests that a service on these files accepts before it refuses one. */
async function acceptedBy(options: TestServiceOptions): Promise<number> {
  const running = await startWorkspaceService(options);
  try {
    let accepted = 0;
    while ((await ask({ url: running.url, token: running.apiKey }, 'GET', TASKS)).status === 200) accepted += 1;
    return accepted;
  } finally {
    await running.close();
  }
}

/** Whether more than `cap` of the times lie in some half-open span of `length`. */
function exceeds(times: readonly number[], cap: number, length: number): boolean {
  return times.some((time, at) => at >= cap && time - times[at - cap]! < length);
}
