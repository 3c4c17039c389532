import { dirname, join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { commandLine } from '../support/harness/command-line.ts';
import { complaintsOf } from '../support/harness/complaints.ts';
import { createWorld, STORE, type World } from '../support/harness/daemon.ts';
import { ON_POSTGRES, storePlace } from '../support/postgres/store-place.ts';

/** `deliveries refused`, beside a daemon and without one. */

let world: World;
afterEach(() => world.close());

const refused = (...args: string[]) => commandLine('deliveries', 'refused', '--data', world.dataFolder, ...args);

async function refuseSome(): Promise<void> {
  world = await createWorld();
  expect(await world.deliver('pull_request', {}, { secret: 'another secret, as long as that' })).toBe(401);
  expect(await world.deliver('pull_request', {}, { secret: 'another secret, as long as that' })).toBe(401);
  // So that one of them is the latest.
  await world.clock.advance(1);
  expect(await world.post('nobody', { headers: { 'user-agent': 'curl' }, body: '{}' })).toBe(404);
  // They are written every few seconds.
  await world.clock.advance(3_000);
  await world.until(async () => (await refused()).stdout.includes('/webhooks/test/nobody'));
}

it('tells what was refused, why, and how often', async () => {
  await refuseSome();
  const told = await refused('--workspace', 'test');
  expect([told.code, complaintsOf(told)]).toEqual([0, '']);
  expect(told.stdout).toMatch(
    /refused {2}POST \/webhooks\/test\/github from 127\.0\.0\.1: 401 signature_mismatch, 2 times since .+\n {4}\S/,
  );
  const [latest] = (await refused('--json', '--limit', '1')).json();
  expect(latest).toMatchObject({ path: '/webhooks/test/nobody', status: 404, count: 1, code: 'not_found' });
  const withHeaders = (await refused('--headers')).stdout;
  expect(withHeaders).toContain('\n    x-github-event: pull_request\n');
});

it('needs no daemon, and shows of one workspace no other', async () => {
  await refuseSome();
  await world.restart({
    meanwhile: async () => {
      const place = ON_POSTGRES ? ['--store', await storePlace(join(dirname(world.dataFolder), STORE))] : [];
      const all = await refused('--json', ...place);
      expect(all.json().map(({ status }) => status)).toEqual([404, 401]);
      const other = await refused('--workspace', 'other', ...place);
      expect(other).toMatchObject({ code: 0, stdout: 'nothing was refused\n' });
    },
  });
});
