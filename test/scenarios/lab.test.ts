import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { LabReport } from '../../src/admin/workspace/lab.ts';
import { describeLab } from '../../src/cli/changes/plan.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

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
    expect(describeLab(report, world.clock.now())).toContain('"ticket/1 open" → BUG-1  (pattern 1: ticket/1)');
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
});
