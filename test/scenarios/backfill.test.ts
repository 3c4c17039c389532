import { afterEach, describe, expect, it } from 'vitest';
import type { AskedBackfill, BackfillProgress } from '../../src/admin/connections/connections.ts';
import { createForge, type Forge, forgeItem, pulls } from '../support/fakes/forge.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';

const DAY = 86_400_000;
const SECRET = 'a webhook secret for tests only';
/** Before the travelling clock begins. */
const THEN = Date.UTC(2026, 0, 4, 9);

let world: World;
afterEach(() => world.close());

async function open(forge: Forge, options: Partial<WorldOptions> = {}): Promise<void> {
  const connections = { forge: { connector: 'gitlab', webhookSecrets: SECRET, poll: 'off' } };
  const config = { connections, ...options.config };
  world = await createWorld({ ...options, connectors: [forge.connector], config });
}

async function ask(since: string | null = null): Promise<AskedBackfill> {
  const asked = { connection: 'forge', since };
  return world.ask('backfill', asked);
}

async function progress(): Promise<BackfillProgress | null> {
  const answer = world.ask('backfill-progress', { connection: 'forge' });
  return (await answer).progress;
}

async function finished(limit = DAY): Promise<void> {
  await world.until(async () => (await progress())?.state === 'done', limit);
}

/** Numbers of the records in the workspace, ascending. */
const records = async () => (await world.records()).map(({ identifier }) => identifier);

const numbers = (count: number) => Array.from({ length: count }, (_, index) => String(index + 1));

describe('a backfill', () => {
  it('reads every unit to its end, the newest of each first, and says how far it is', async () => {
    const forge = createForge({ app: pulls(7, THEN), web: pulls(2, THEN, 101), none: [] });
    await open(forge);
    const { outcome, progress: first } = await ask();
    expect(outcome).toBe('started');
    expect(first).toMatchObject({ state: 'reading', listed: false, items: 0, total: null, forecast: null });
    await world.until(async () => (await progress())?.items === 3);
    expect(await progress()).toMatchObject({ listed: true, units: 3, unitsDone: 0, total: null });
    await finished();
    expect(forge.asked).toEqual([
      'units',
      'history app 1',
      'history none 1',
      'history web 1',
      'history app 2',
      'history app 3',
    ]);
    const done = { state: 'done', units: 3, unitsDone: 3, pages: 5, items: 9, total: 9, changes: 0, failures: [] };
    expect(await progress()).toMatchObject(done);
    expect(await records()).toEqual([...numbers(7), '101', '102']);
  });

  it('goes on after the end of the process at any page, and stores none twice', async () => {
    const forge = createForge({ app: pulls(10, THEN) });
    await open(forge);
    await ask();
    for (let page = 1; page <= 4; page++) {
      await world.until(() => forge.asked.includes(`history app ${page}`));
      await world.restart();
    }
    await finished();
    expect(await records()).toEqual(numbers(10));
    const stored = await world
      .partition()
      .store.query.selectFrom('inbox')
      .select('id')
      .where('source', '=', 'backfill')
      .execute();
    expect(stored).toHaveLength(4);
  });

  it('is one at a time, is stopped by hand, and may be asked for anew', async () => {
    const forge = createForge({ app: pulls(30, THEN) });
    await open(forge);
    await ask();
    await world.until(async () => ((await progress())?.items ?? 0) >= 6);
    const again = await ask('2026-01-01T00:00:00.000Z');
    expect(again).toMatchObject({ outcome: 'running', progress: { since: null } });
    const stop = () => world.ask('backfill-stop', { connection: 'forge' });
    expect(await stop()).toEqual({ stopped: true });
    expect(await stop()).toEqual({ stopped: false });
    expect(await progress()).toBeNull();
    const pages = forge.asked.length;
    await world.settled();
    await world.clock.advance(60_000);
    expect(forge.asked.length).toBe(pages);
    expect((await ask()).outcome).toBe('started');
    await finished();
    expect(await records()).toEqual(numbers(30));
  });

  it('reads no page while somebody has paused it, not even after a restart, and goes on when it is resumed', async () => {
    const forge = createForge({ app: pulls(12, THEN) });
    await open(forge);
    const tell = (question: 'backfill-pause' | 'backfill-resume') => world.ask(question, { connection: 'forge' });
    expect([await tell('backfill-pause'), await tell('backfill-resume')]).toEqual([
      { paused: false },
      { resumed: false },
    ]);
    await ask();
    let pausing: Promise<unknown> | undefined;
    // While the second page is being read.
    forge.onAsk = (what) => {
      if (what === 'history app 2') pausing = tell('backfill-pause');
      return pausing;
    };
    await world.until(async () => (await progress())?.state === 'paused' && (await records()).length === 6);
    expect(await pausing).toEqual({ paused: true });
    const asked = ['units', 'history app 1', 'history app 2'];
    expect(forge.asked).toEqual(asked);
    expect(await progress()).toMatchObject({ state: 'paused', items: 6, changes: 0, unitsDone: 0 });
    await world.restart();
    await world.clock.advance(DAY);
    expect(forge.asked).toEqual(asked);
    // A second request returns the one that is paused.
    expect(await ask()).toMatchObject({ outcome: 'running', progress: { state: 'paused' } });
    expect(await tell('backfill-resume')).toEqual({ resumed: true });
    await finished();
    expect(forge.asked).toEqual([...asked, 'history app 3', 'history app 4']);
    expect(await records()).toEqual(numbers(12));
  });

  it('stays paused if it was paused while its units were listed', async () => {
    const forge = createForge({ app: pulls(3, THEN) });
    await open(forge);
    forge.onAsk = () => world.ask('backfill-pause', { connection: 'forge' });
    await ask();
    await world.until(() => forge.asked.includes('units'));
    await world.clock.advance(DAY);
    expect([forge.asked, (await progress())?.state]).toEqual([['units'], 'paused']);
  });
});

describe('beside live work', () => {
  const live = async (pull: Parameters<typeof forgeItem>[1], id: string) => {
    const headers = { 'x-forge-secret': SECRET, 'x-forge-delivery': id };
    const body = JSON.stringify([forgeItem('app', pull)]);
    const answer = await fetch(`${world.daemon().address}/webhooks/test/forge`, { method: 'POST', headers, body });
    expect(answer.status).toBe(202);
  };
  const lanes = async () => {
    const rows = await world.partition().store.query.selectFrom('outbox').select(['entity', 'lane', 'guard']).execute();
    return rows.map(({ entity, lane, guard }) => [entity.split('/').at(-1), lane, guard]);
  };

  it('is sent last, whatever came first; a live event of the same item takes it along; no guard holds it', async () => {
    const forge = createForge({ app: pulls(60, THEN) });
    await open(forge, { quota: { requests: 30, burst: 30 }, config: { guard: { creations: 3, removals: 3 } } });
    await ask();
    await world.until(async () => (await progress())?.state === 'sending');
    const waiting = await lanes();
    expect(waiting.length).toBeGreaterThan(20);
    expect(new Set(waiting.map(([, lane, guard]) => `${lane} ${guard}`))).toEqual(new Set(['backfill confirmed']));
    const [oldest = ''] = waiting.map(([number]) => String(number)).sort((a, b) => Number(a) - Number(b));

    const now = world.clock.now();
    await live({ number: 500, title: 'New', state: 'open', updatedAt: now }, 'one');
    await live({ number: Number(oldest), title: 'Old, and touched', state: 'open', updatedAt: now }, 'two');
    await world.until(async () => (await records()).includes('500'));
    await world.until(async () => (await records()).includes(oldest));
    const left = await lanes();
    // By age alone, all that waited would have gone before them.
    expect(left.length).toBeGreaterThan(waiting.length - 10);
    await finished();
    expect(await records()).toEqual([...numbers(60), '500']);
    expect((await world.partition().status()).changes.byState.held).toBe(0);
  });
});
