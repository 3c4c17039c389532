import { afterEach, describe, expect, it } from 'vitest';
import { createForge, type Forge, pulls } from '../support/fakes/forge.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';

/** The sweep of the workspace against the real service; its law stands in `test/laws/workspace-sweep.test.ts`. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const THEN = Date.UTC(2026, 0, 4, 9);

let world: World;
let forge: Forge;
afterEach(() => world.close());

/** Three pull requests, mirrored; nothing tells of a change at either side but sweeps of the workspace, one in an hour. */
async function open(options: WorldOptions = {}): Promise<void> {
  forge = createForge({ app: pulls(3, THEN).map((pull) => ({ ...pull, state: 'open' })) });
  const connections = { forge: { connector: 'gitlab', poll: '30d', sweep: 'off' } };
  world = await createWorld({
    connectors: [forge.connector],
    ...options,
    config: { connections, workspace: { sweep: '1h' }, ...options.config },
  });
  await world.until(async () => (await titles()).length === 3);
  await world.settled();
}

const titles = async () => (await world.records()).map(({ title }) => title).sort();
/** Read at each step of the clock, so by one query. */
async function lastFinish(): Promise<number | null | undefined> {
  const sweeps = world.partition().store.query.selectFrom('workspace_sweeps');
  return (await sweeps.select('finished_at').orderBy('finished_at', 'desc').limit(1).execute())[0]?.finished_at;
}

const sweepOf = async () => (await world.partition().status()).sweep;

async function editByHand(identifier: string, title: string): Promise<void> {
  await world.people.updatePullRequest({ body: { provider: 'gitlab', repoId: 'app', identifier, title } }, {});
}

async function swept(): Promise<void> {
  const before = await lastFinish();
  await world.until(async () => (await lastFinish()) !== before, 3 * HOUR);
  await world.settled();
}

describe('the sweep of the workspace', () => {
  it('repairs changes that no webhook reported, each time, and reports the repairs', async () => {
    await open();
    await editByHand('2', 'By hand');
    await swept();
    expect(await titles()).toEqual(['Pull 1', 'Pull 2', 'Pull 3']);
    expect((await sweepOf()).last).toMatchObject({
      records: 3,
      found: { 'record-changed': 1, 'record-missing': 0, 'task-changed': 0 },
      repairs: { done: 1, waiting: 0, held: 0 },
      latest: [{ what: 'record-changed', entity: 'pull_request:gitlab/app/2' }],
    });
    expect(await world.metrics()).toContain('worksync_workspace_sweep_found{workspace="test",what="record-changed"} 1');

    world.weather.arrivals.length = 0;
    await swept();
    expect((await sweepOf()).last).toMatchObject({ records: 3, found: { 'record-changed': 0 } });
    expect(world.weather.arrivals.filter(({ method }) => method !== 'GET')).toEqual([]);
  });

  it('holds more repairs than the guard allows, until an administrator approves them', async () => {
    await open({ config: { guard: { repairs: 1 } } });
    for (const each of ['1', '2', '3']) await editByHand(each, 'By hand');
    await swept();
    expect((await sweepOf()).last?.repairs).toEqual({ done: 1, waiting: 0, held: 2 });
    expect((await titles()).filter((title) => title === 'By hand')).toHaveLength(2);
  });

  it('comes never where it is off, unless somebody asks', async () => {
    await open({ config: { workspace: { sweep: 'off' } } });
    await world.clock.advance(DAY + 3 * HOUR);
    expect(await sweepOf()).toEqual({ running: null, last: null, turn: null });
    const waitsFor = async () => (await world.ask('sweep-progress', {})).waitsFor;
    expect(await waitsFor()).toBe(null);
    await world.partition().timetable.runNow('workspace.sweep');
    expect(await waitsFor()).toMatch(
      /^the list of tasks (is being read|waits for quota that nothing else needs); the list of/,
    );
    await world.until(async () => (await sweepOf()).last !== null, HOUR);
    expect(await waitsFor()).toBe(null);
  });
});
