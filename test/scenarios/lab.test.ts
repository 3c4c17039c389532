import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { type LabReport, tryRules } from '../../src/admin/workspace/lab.ts';
import { describeLab } from '../../src/cli/changes/plan.ts';
import { yieldForRequests } from '../../src/platform/lib/concurrency.ts';
import { scopeOf } from '../../src/store/workspace-scope.ts';
import { createWorld, GITHUB, type World } from '../support/harness/daemon.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(() => world.close());

const edit = (setting: PullSetting) => world.edit(setting);

function inUse(): Record<string, unknown> {
  return parse(readFileSync(join(world.configFolder, 'test.yaml'), 'utf8')) as Record<string, unknown>;
}

function lab(more: object = {}): Promise<LabReport> {
  const config = JSON.stringify({ ...inUse(), ...more });
  return world.ask('lab', { config, limit: 5 });
}

/** Everything that evaluating could write. */
async function rows(): Promise<unknown> {
  const { query } = world.partition().store;
  const tables = ['entities', 'outbox', 'mentions', 'items', 'notices', 'meta', 'item_names'] as const;
  return Promise.all(tables.map((table) => query.selectFrom(table).selectAll().execute()));
}

const TICKETS = { rules: { links: [{ pattern: 'ticket/([0-9]+)', place: ['branch', 'title'], task: 'BUG-$1' }] } };

describe('the rule lab', () => {
  it('says which statuses rules would have changed over stored items, and writes nothing', async () => {
    for (const title of ['One', 'Two', 'Three']) await world.bug(title);
    await world.clock.advance(60_000);
    await edit({ number: 1, title: 'BUG-1', created: new Date(world.clock.now()).toISOString() });
    await edit({ number: 2, title: 'Fixes BUG-2', merged: true });
    await edit({ number: 3, title: 'BUG-3', state: 'closed' });
    const before = await rows();
    const report = await lab({ rules: { workflow: { preset: 'standard' } } });
    expect(report).toMatchObject({ requests: 0, effects: [{ effect: 'update-task', added: 0, dropped: 0, later: 2 }] });
    expect(report.samples).toMatchObject([
      { task: 'BUG-1', sets: 'status open → review (standard: open)' },
      { task: 'BUG-2', sets: 'status open → completed (standard: merged)' },
    ]);
    expect(await rows()).toEqual(before);
    expect(describeLab(report, world.clock.now())).toContain('→ BUG-2  (status open → completed (standard: merged))');
    const reachingBack = { rules: { workflow: { preset: 'standard', since: 'always' } } };
    const reaching = await lab(reachingBack);
    expect(reaching.effects).toEqual([{ effect: 'update-task', added: 2, dropped: 0, later: 0 }]);
    // As the lab says, these rules then move the task of the finished pull request too.
    const statuses = async () => (await world.tasks()).map(({ status }) => status);
    world.configure('test', { rules: { workflow: { preset: 'standard' } } });
    await world.reload();
    await world.clock.advance(300_000);
    expect(await statuses()).toEqual(['open', 'open', 'open']);
    world.configure('test', { ...reachingBack });
    await world.reload();
    await world.clock.advance(300_000);
    expect(await statuses()).toEqual(['review', 'completed', 'open']);
  });

  it('says which links other rules would add, now and when finished items change, and writes nothing', async () => {
    await world.bug();
    await edit({ number: 1, title: 'ticket/1 open' });
    await edit({ number: 2, title: 'ticket/1 closed', state: 'closed' });
    await edit({ number: 3, title: 'nothing' });
    const before = await rows();
    const sent = await world.requests();
    const report = await lab(TICKETS);
    expect(report).toMatchObject({ inUse: false, items: { open: 2, finished: 1 }, requests: 1, without: [] });
    expect(report.effects).toEqual([{ effect: 'add-link', added: 1, dropped: 0, later: 1 }]);
    const reason = { rule: 'pattern 1', place: 'title', text: 'ticket/1', intent: 'mentions' };
    expect(report.samples).toMatchObject([
      { effect: 'add-link', change: 'added', title: 'ticket/1 open', task: 'BUG-1', reason },
      { effect: 'add-link', change: 'later', title: 'ticket/1 closed', task: 'BUG-1' },
    ]);
    expect(await rows()).toEqual(before);
    expect(await world.requests()).toEqual(sent);
    const text = describeLab(report, world.clock.now());
    expect(text).toContain('evaluated 2 open items and 1 finished item by this configuration; nothing was written\n');
    expect(text).toContain('  links added: 1 now, 1 when finished items change\n');
    expect(text).toContain('"ticket/1 open" → BUG-1  (pattern 1: ticket/1)');
  });

  it('says which links and waiting changes would go, and what a connection that is left out keeps', async () => {
    await world.bug();
    await edit({ number: 1, title: 'BUG-1 is mended' });
    await world.restart({ config: TICKETS });
    await edit({ number: 2, title: 'ticket/1 open' });
    const report = await lab({ rules: {} });
    expect(report.effects).toEqual([{ effect: 'remove-link', added: 1, dropped: 0, later: 0 }]);
    const without = await lab({ connections: { other: { connector: 'github', repositories: ['acme/other'] } } });
    expect(without).toMatchObject({ requests: 0, without: [{ connection: 'github', items: 2 }] });
    expect(describeLab(without, world.clock.now())).toContain(
      'connection github is not in this configuration: its 2 items would stay',
    );
  });

  it('ends after so many items, the open ones first, or after its time, and says so', async () => {
    await world.bug();
    await edit({ number: 1, title: 'ticket/1 closed', state: 'closed' });
    for (const number of [2, 3, 4]) await edit({ number, title: 'ticket/1 open' });
    const config = JSON.stringify({ ...inUse(), ...TICKETS });
    const within = (items: number, time: number) =>
      tryRules(world.partition(), { config, limit: 0 }, world.clock, { items, time });
    const some = await within(2, 60_000);
    expect(some).toMatchObject({ items: { open: 2, finished: 0 }, ended: { by: 'items', held: 4 } });
    expect(some.effects).toEqual([{ effect: 'add-link', added: 2, dropped: 0, later: 0 }]);
    expect(describeLab(some, world.clock.now())).toContain('these are not all of its 4 items: ');
    expect(await within(3, 60_000)).toMatchObject({ items: { open: 3, finished: 0 }, ended: { by: 'items' } });
    expect(await within(4, 60_000)).toMatchObject({ items: { open: 3, finished: 1 }, ended: null });
    for (const number of Array.from({ length: 20 }, (_, index) => index + 5)) await edit({ number, title: 'nothing' });
    expect(await within(99, 0)).toMatchObject({ items: { open: 20, finished: 0 }, ended: { by: 'time', held: 24 } });
  });

  it('knows the configuration in use, and refuses a wrong one and that of another workspace', async () => {
    await edit({ number: 1, title: 'nothing' });
    expect(await lab()).toMatchObject({ inUse: true, requests: 0 });
    await expect(lab({ rules: { linkz: [] } })).rejects.toMatchObject({ code: 'config_invalid' });
    await expect(lab({ name: 'other' })).rejects.toMatchObject({ code: 'usage' });
  });

  it('reads no variable for a text: a value that decides on no write may be anything, and no message shows one', async () => {
    await edit({ number: 1, title: 'nothing' });
    const tried = {
      connections: { github: { connector: 'github', repositories: ['acme/app'], webhookSecrets: `\${HOME}` } },
    };
    expect(await lab(tried)).toMatchObject({ inUse: true });
    const home = await lab({ name: `\${HOME}` }).catch((error: unknown) => String(error));
    expect(home).toContain('name');
    expect(home).not.toContain(process.env['HOME'] ?? 'HOME is not set');
  });

  it('reports all changes of the last items, however late the database answers', async () => {
    await world.people.createBug({ body: { title: 'It breaks' } }, {});
    for (const number of [1, 2, 3, 4, 5, 6]) await edit({ number, title: 'ticket/1 open' });
    const config = JSON.stringify({ ...inUse(), ...TICKETS });
    const partition = world.partition();
    const { whole, workspace } = partition.store.query;
    const slow = whole.withPlugin({
      transformQuery: ({ node }) => node,
      async transformResult({ result }) {
        await yieldForRequests();
        return result;
      },
    });
    const store = { ...partition.store, query: scopeOf(slow, workspace) };
    const report = await tryRules({ ...partition, store }, { config, limit: 5 }, world.clock);
    expect(report.effects).toEqual([{ effect: 'add-link', added: 6, dropped: 0, later: 0 }]);
    expect(report.samples).toHaveLength(5);
  });

  it('says which records would be written, or dropped before they are', async () => {
    const [on, off] = [{ github: GITHUB }, { github: { ...GITHUB, mirror: 'off' } }];
    await world.restart({ config: { connections: off } });
    await edit({ number: 1, title: 'open' });
    await edit({ number: 2, title: 'closed', state: 'closed' });
    const recording = await lab({ connections: on });
    expect(recording.effects).toEqual([{ effect: 'record', added: 1, dropped: 0, later: 1 }]);
    expect(recording.samples).toMatchObject([
      { change: 'added', title: 'open', task: null, reason: null, sets: null },
      { change: 'later', title: 'closed' },
    ]);
    await world.restart({ config: { connections: on } });
    await world.settled();
    await world.deliver('pull_request', pullEvent({ number: 3, title: 'waits' }));
    await world.partition().reconcile.drain();
    const [same, dropping] = [await lab({ connections: on }), await lab({ connections: off })];
    expect([same.inUse, same.effects, dropping.inUse]).toEqual([true, [], false]);
    expect(dropping.effects).toEqual([{ effect: 'record', added: 0, dropped: 1, later: 0 }]);
    expect(dropping.samples).toMatchObject([{ change: 'dropped', title: 'waits' }]);
  });
});
