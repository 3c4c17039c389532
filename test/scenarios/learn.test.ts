import { afterEach, describe, expect, it } from 'vitest';
import { createForge, type Forge, type ForgePull, pulls } from '../support/fakes/forge.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';

/** All answers of the workspace, to any caller, are captured in one way. */

const MINUTE = 60_000;
const THEN = Date.UTC(2026, 0, 4, 9);
const SECRET = 'a webhook secret for tests only';
const RECORD = { provider: 'gitlab', repoId: 'app', identifier: '1' } as const;

let world: World;
let forge: Forge;
afterEach(() => world.close());

/** One pull request, mirrored; nothing tells of it but a poll a month, and no webhook tells of the workspace. */
async function open(options: WorldOptions = {}): Promise<void> {
  forge = createForge({ app: pulls(1, THEN).map((pull) => ({ ...pull, state: 'open' })) });
  const connections = { forge: { connector: 'gitlab', webhookSecrets: SECRET, poll: '30d', sweep: 'off' } };
  world = await createWorld({ connectors: [forge.connector], config: { connections }, ...options });
  await world.until(async () => (await titles()).length === 1);
  await rest();
}

async function rest(): Promise<void> {
  await world.settled();
  await world.clock.advance(MINUTE);
  await world.settled();
  world.weather.arrivals.length = 0;
}

const titles = async () => (await world.records()).map(({ title }) => title);
const asked = () => world.weather.arrivals.splice(0).map(({ method, url }) => `${method} ${url.replace(/^.*\//, '')}`);
/** As commands send: through the daemon, with its key and its quota. */
const command = () => world.partition().client;
const NOW = { lane: 'interactive' } as const;

function edit(pull: Partial<ForgePull>): void {
  const [held] = forge.repositories.get('app') as [ForgePull];
  forge.repositories.set('app', [{ ...held, ...pull, updatedAt: held.updatedAt + MINUTE }]);
}

describe('a record that a command edited', () => {
  it('is written again as the provider has it, once', async () => {
    await open();
    await command().updatePullRequest({ body: { ...RECORD, title: 'By hand' } }, NOW);
    expect(await titles()).toEqual(['By hand']);
    await world.settled();
    await world.clock.advance(MINUTE);
    await world.settled();
    expect(await titles()).toEqual(['Pull 1']);
    expect(asked()).toEqual(['PATCH pull-requests', 'POST pull-request-records']);
  });

  it('stays as it is where the provider was edited with it, though nothing has told of that', async () => {
    await open();
    edit({ title: 'By hand' });
    forge.asked.length = 0;
    await command().updatePullRequest({ body: { ...RECORD, title: 'By hand' } }, NOW);
    await world.settled();
    await world.clock.advance(MINUTE);
    await world.settled();
    expect(await titles()).toEqual(['By hand']);
    expect(forge.asked).toEqual(['fetch app 1']);
    expect(asked()).toEqual(['PATCH pull-requests']);
  });
});
