import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createForge, type Forge, pulls } from '../support/fakes/forge.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';

const MINUTE = 60_000;
const SECRET = 'a webhook secret for tests only';
const URL_OF_HOOKS = 'https://sync.example/webhooks/test/forge';

let world: World;
let forge: Forge;
beforeEach(() => {
  forge = createForge({ app: pulls(1, 1), web: [] });
});
afterEach(() => world.close());

async function open(options: Partial<WorldOptions> = {}, connection: object = {}): Promise<void> {
  const connections = {
    forge: {
      connector: 'gitlab',
      webhookSecrets: [SECRET, 'the next secret of the tests'],
      poll: 'off',
      ...connection,
    },
  };
  const config = { connections };
  world = await createWorld({ publicUrl: 'https://sync.example', ...options, connectors: [forge.connector], config });
}

const ask: World['ask'] = (question, asked) => world.ask(question, asked);

async function metric(name: string): Promise<string | undefined> {
  const page = await world.metrics();
  return new RegExp(`^worksync_${name}\\{workspace="test",connection="forge"\\} (.*)$`, 'm').exec(page)?.[1];
}

const status = async () => (await world.partition().status()).connections[0]?.hooks;

describe('webhooks at the vendor', () => {
  it('are looked at once an hour; those that are off or absent are shown', async () => {
    await open();
    expect(await status()).toMatchObject({ at: null, silent: [] });
    forge.hooks.set('app', { url: URL_OF_HOOKS, secret: SECRET, isOn: true });
    forge.hooks.set('web', { url: 'https://other.example/', secret: SECRET, isOn: true });
    await world.clock.advance(MINUTE);
    expect(await status()).toMatchObject({ silent: [{ subject: 'web', state: 'absent' }], failure: null });
    expect(await metric('hook_disabled')).toBe('1');
    await world.clock.advance(52 * MINUTE);
    expect(forge.asked.filter((each) => each === `hooks ${URL_OF_HOOKS}`)).toHaveLength(1);
    forge.hooks.set('app', { url: URL_OF_HOOKS, secret: SECRET, isOn: false });
    await world.clock.advance(14 * MINUTE);
    expect((await status())?.silent.map(({ subject, state }) => [subject, state])).toEqual([
      ['app', 'disabled'],
      ['web', 'absent'],
    ]);
    expect(await metric('hook_disabled')).toBe('2');
  });

  it('are installed with the first secret, again and again to the same end, and then looked at', async () => {
    await open();
    await world.clock.advance(MINUTE);
    expect((await status())?.silent).toHaveLength(2);
    const outcomes = async () => {
      const { hooks } = await ask('hooks-install', { connection: 'forge' });
      return hooks.map(({ outcome }) => outcome);
    };
    expect(await outcomes()).toEqual(['created', 'created']);
    expect((await status())?.silent).toEqual([]);
    expect(forge.hooks.get('app')).toEqual({ url: URL_OF_HOOKS, secret: SECRET, isOn: true });
    forge.hooks.set('web', { url: URL_OF_HOOKS, secret: SECRET, isOn: false });
    expect(await outcomes()).toEqual(['unchanged', 'updated']);
  });

  it('need a public address, from the command where the daemon knows none, and a secret', async () => {
    await open({ publicUrl: undefined });
    await expect(ask('hooks-install', { connection: 'forge' })).rejects.toMatchObject({ code: 'public_url_missing' });
    await world.clock.advance(2 * 60 * MINUTE);
    expect(forge.asked).toEqual([]);
    expect(await ask('hooks', {})).toMatchObject([{ url: null, failure: { code: 'public_url_missing' } }]);
    const publicUrl = 'https://from.example/base';
    expect(await ask('hooks', { publicUrl })).toMatchObject([
      { url: 'https://from.example/base/webhooks/test/forge', hooks: [{ state: 'absent' }, { state: 'absent' }] },
    ]);
    await world.close();
    await open({}, { webhookSecrets: undefined, poll: '30d' });
    await expect(ask('hooks-install', { connection: 'forge' })).rejects.toMatchObject({ code: 'secret_missing' });
    expect(await ask('hooks', {})).toEqual([]);
    await expect(ask('hooks', { connection: 'none' })).rejects.toMatchObject({ code: 'usage' });
  });
});
