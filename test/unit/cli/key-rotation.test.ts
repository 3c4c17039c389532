import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import {
  type KeyFile,
  keyFile,
  type Rotation,
  type RotationEvent,
  rotateKey,
} from '../../../src/cli/access/key-rotation.ts';
import type { CommandClient } from '../../../src/cli/workspace-command.ts';
import type { Clock } from '../../../src/platform/lib/clock.ts';
import { createTravellingClock, type TravellingClock } from '../../support/fakes/travelling-clock.ts';
import { NO_QUOTA, startWorkspaceService, type TestService } from '../../support/fakes/workspace-service.ts';
import { isDeep } from '../../support/harness/depth.ts';

const MINUTE = 60_000;
const DESCRIPTION = 'the new one';

let clock: TravellingClock;
let service: TestService;
let path: string;
let old: { apiKeyId: string; secret: string };
let events: RotationEvent[];

beforeEach(async () => {
  clock = createTravellingClock();
  service = await startWorkspaceService({ clock, quota: NO_QUOTA });
  const folder = mkdtempSync(join(tmpdir(), 'worksync-rotation-'));
  onTestFinished(async () => {
    await service.close();
    rmSync(folder, { recursive: true });
  });
  path = join(folder, 'ci.key');
  old = await service.service.mintKey({ workspaceId: service.workspaceId, userId: service.userId, description: 'old' });
  await use(old.secret);
  await clock.advance(MINUTE);
  events = [];
});

const owner = (): CommandClient => service.client(service.oauthToken) as CommandClient;
const use = async (secret: string) => void (await service.client(secret).listTasks({ query: { limit: 1 } }, {}));
const secretInFile = () => readFileSync(path, 'utf8').trim();
const keys = async () => (await owner().listApiKeys({}, {})).body.apiKeys;
const active = async () => (await keys()).filter(({ status }) => status === 'active').map((key) => key.apiKeyId);

/** Whenever the rotation pauses, the others send their requests, and time passes. */
function clockWith(traffic: () => Promise<void>): Clock {
  return {
    ...clock,
    after(ms, call) {
      void (async () => {
        await traffic();
        await clock.advance(ms);
        call();
      })();
      return () => undefined;
    },
  };
}

function rotation(traffic: () => Promise<void>, changed: Partial<Rotation> = {}): Rotation {
  return {
    client: owner(),
    clock: clockWith(traffic),
    description: DESCRIPTION,
    oldKeyId: old.apiKeyId,
    file: keyFile(path),
    quiet: 5 * MINUTE,
    patience: 60 * MINUTE,
    tell: (event) => events.push(event),
    ...changed,
  };
}

const switched = async () => use(secretInFile());

it('W23 creates, hands over, waits for traffic to move, and only then revokes the old key', async () => {
  const begin = clock.now();
  let lastOldUse = 0;
  const traffic = async () => {
    if (clock.now() < begin + 3 * MINUTE) {
      lastOldUse = clock.now();
      await use(old.secret);
    } else await switched();
  };
  await rotateKey(rotation(traffic));
  expect(events.map(({ did }) => did)).toEqual(expect.arrayContaining(['created', 'waiting', 'revoked']));
  expect(clock.now() - lastOldUse).toBeGreaterThanOrEqual(4 * MINUTE);
  expect(await active()).not.toContain(old.apiKeyId);
  await use(secretInFile());
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const created = events.find(({ did }) => did === 'created');
  expect(created).toMatchObject({ secret: undefined });
});

it('W23 revokes nothing while the new key is not used', async () => {
  await expect(rotateKey(rotation(async () => undefined))).rejects.toMatchObject({ code: 'rotation_waiting' });
  expect(await active()).toContain(old.apiKeyId);
});

it('W23 revokes nothing while somebody still uses the old key', async () => {
  const traffic = async () => {
    await switched();
    await use(old.secret);
  };
  await expect(rotateKey(rotation(traffic, { patience: 20 * MINUTE }))).rejects.toMatchObject({
    code: 'rotation_waiting',
  });
  expect(await active()).toContain(old.apiKeyId);
});

it('replaces the old secret in the file in one step, and refuses a file that holds something else', async () => {
  writeFileSync(path, `${old.secret}\n`);
  await rotateKey(rotation(switched));
  expect(secretInFile()).not.toBe(old.secret);
  writeFileSync(path, 'two\nlines\n');
  expect(() => keyFile(path)).toThrow('contains something other than a key');
});

it('a rotation that is done is not done again', async () => {
  await rotateKey(rotation(switched));
  const before = await keys();
  events.length = 0;
  await rotateKey(rotation(switched));
  expect(events).toEqual([{ did: 'nothing', apiKeyId: old.apiKeyId }]);
  expect((await keys()).map(({ apiKeyId, status }) => [apiKeyId, status])).toEqual(
    before.map(({ apiKeyId, status }) => [apiKeyId, status]),
  );
});

class Killed extends Error {}

/** One of so many steps is cut off. */
const EVERY = isDeep ? 1 : 3;

/** Counts the calls of both, and ends with `Killed` before or after the nth one. */
function killedAt(step: number, edge: 'before' | 'after', client: CommandClient, file: KeyFile) {
  let calls = 0;
  const guard =
    <Arguments extends unknown[], Result>(call: (...given: Arguments) => Result) =>
    (...given: Arguments): Result => {
      const mine = calls++;
      if (mine === step && edge === 'before') throw new Killed();
      const result = call(...given);
      if (mine !== step) return result;
      if (result instanceof Promise) return result.then(() => Promise.reject(new Killed())) as Result;
      throw new Killed();
    };
  const wrap = <Object extends object>(object: Object) =>
    Object.fromEntries(Object.entries(object).map(([name, call]) => [name, guard(call)])) as Object;
  return { client: wrap(client), file: wrap(file), reached: () => calls > step };
}

it('W23 cut off before or after any step, the same call finishes: one new key, in the file, the old one revoked', async () => {
  for (const edge of ['before', 'after'] as const) {
    for (let step = 0, reached = true; reached; step += EVERY) {
      const { client, file, ...killed } = killedAt(step, edge, owner(), keyFile(path));
      const asked = { description: `${DESCRIPTION}: ${edge} ${step}`, quiet: 2 * MINUTE };
      await rotateKey(rotation(switched, { ...asked, client, file })).catch((error: unknown) => {
        if (!(error instanceof Killed)) throw error;
      });
      reached = killed.reached();
      await rotateKey(rotation(switched, asked));
      await use(secretInFile());
      const [fresh, ...others] = (await keys()).filter(
        ({ status, description }) => status === 'active' && description !== 'minted at start',
      );
      expect([step, fresh?.description, others]).toEqual([step, asked.description, []]);
      // The next round replaces the key of this one.
      old = { apiKeyId: fresh!.apiKeyId, secret: secretInFile() };
      await clock.advance(MINUTE);
    }
  }
});

it('takes up no key of another state or description, and not the old key itself', async () => {
  const mint = (description: string) =>
    service.service.mintKey({ workspaceId: service.workspaceId, userId: service.userId, description });
  const [revoked, other] = [await mint(DESCRIPTION), await mint('another integration')];
  await use(revoked.secret);
  await owner().revokeApiKey({ apiKeyId: revoked.apiKeyId }, {});
  await use(other.secret);
  await rotateKey(rotation(switched));
  const [created] = events.filter(({ did }) => did === 'created');
  expect(created?.did === 'created' && created.apiKeyId).not.toBe(revoked.apiKeyId);
  // The next rotation keeps the description.
  const { apiKeyId } = (await keys()).find(
    ({ status, description }) => status === 'active' && description === DESCRIPTION,
  )!;
  await rotateKey(rotation(switched, { oldKeyId: apiKeyId, file: keyFile(path) }));
  expect(await active()).toContain(other.apiKeyId);
  expect(await active()).not.toContain(apiKeyId);
});
