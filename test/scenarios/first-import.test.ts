import { afterEach, expect, it } from 'vitest';
import type { WorkspaceStatus } from '../../src/admin/status.ts';
import { createForge, type ForgePull, forgeItem, pulls } from '../support/fakes/forge.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';

/** Before the travelling clock begins. */
const THEN = Date.UTC(2026, 0, 4, 9);

let world: World;
afterEach(() => world.close());

it('counts neither a first import nor what is fetched for it as lag, and counts a webhook after it', async () => {
  const forge = createForge({ app: pulls(30, THEN).map((pull) => ({ ...pull, state: 'open' })) });
  const found = forge.repositories.get('app') as ForgePull[];
  forge.onAsk = (what) => {
    const index = found.findIndex(({ number }) => what === `fetch app ${number}`);
    if (index >= 0) found[index] = { ...(found[index] as ForgePull), title: 'Fetched' };
  };
  const connections = { forge: { connector: 'gitlab', webhookSecrets: WEBHOOK_SECRET, poll: '5m' } };
  const connectors = [{ ...forge.connector, fetchesCommits: () => true }];
  world = await createWorld({ connectors, config: { connections } });
  await world.until(() => forge.asked.includes('poll app'));
  let changes: WorkspaceStatus['changes'] | undefined;
  await world.until(async () => {
    ({ changes } = await world.partition().status());
    return changes.byState.pending > 5;
  });
  expect(changes?.oldest).toEqual({});
  await world.settled();

  const measured = async () => /^worksync_sync_lag_seconds_count.* (\d+)$/m.exec(await world.metrics())?.[1];
  const records = await world.records();
  expect(new Set(records.map(({ title }) => title))).toEqual(new Set(['Fetched']));
  expect([records.length, world.partition().lag(), await measured()]).toEqual([30, null, undefined]);

  const headers = { 'x-forge-secret': WEBHOOK_SECRET, 'x-forge-delivery': 'one' };
  const changed = forgeItem('app', { ...(found[0] as ForgePull), title: 'Renamed', updatedAt: world.clock.now() });
  await world.post('forge', { headers, body: JSON.stringify([changed]) });
  await world.settled();
  expect([world.partition().lag()?.count, await measured()]).toEqual([1, '1']);
});
