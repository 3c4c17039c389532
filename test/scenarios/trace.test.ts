import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Asked } from '../../src/admin/admin-operations.ts';
import { describeDelivery } from '../../src/cli/deliveries/deliveries.ts';
import { describeItems } from '../../src/cli/items/show-items.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import type { PullSetting } from '../support/vendors/github-payloads.ts';

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(() => world.close());

const ask: World['ask'] = (question, asked) => world.ask(question, asked);
const edit = (setting: PullSetting, id?: string) => world.edit(setting, id);

const newBug = async () => (await world.bug()).taskId;
const list = (wish: Partial<Asked<'deliveries'>> = {}) => ask('deliveries', { limit: 50, ...wish });

it('tells what a delivery said, what was decided, what was sent for it, and what was answered', async () => {
  const taskId = await newBug();
  await edit({ title: 'Door', body: 'It fixes BUG-1.' }, 'the-delivery');
  const told = await ask('delivery', { delivery: 'the-delivery' });
  const origin = { key: 'the-delivery', source: 'webhook', connector: 'github', state: 'applied' };
  expect(told.delivery).toMatchObject(origin);
  expect(told.verified).toContain('webhook secret');
  expect(told.read).toMatchObject({
    outcome: 'items',
    count: 1,
    items: [{ name: 'acme/app#1', label: 'acme/app#1 Door', decision: 'changed', isFetched: false }],
  });
  expect(JSON.parse(told.body?.text ?? '')).toMatchObject({ pull_request: { title: 'Door' } });
  const sent = told.courses.map(({ about, state, status }) => `${about.label}: ${state} ${status}`);
  expect(new Set(sent)).toEqual(
    new Set(['link of acme/app#1 to BUG-1: answered 201', 'record of acme/app#1: answered 201']),
  );
  for (const { times, deliveries, attempt, about } of told.courses) {
    expect(deliveries.map(({ id }) => id)).toEqual([told.delivery.id]);
    expect(attempt).toBe(1);
    const { received, decided, due, asked, slot, sent, answered } = times;
    const course = [received, decided, asked, slot, sent, answered] as number[];
    expect(course).toEqual(course.toSorted((a, b) => a - b));
    expect(due).toBeGreaterThanOrEqual(received as number);
    expect(about.task).toEqual(about.kind === 'link' ? { taskId, key: 'BUG-1', name: 'BUG-1' } : null);
  }
  const text = describeDelivery(told, { raw: true });
  expect(text).toContain('link of acme/app#1 to BUG-1: answered 201  add-link, request ');
  expect(text).toContain('body:\n{"');
  const answer = (await list({ own: true })).deliveries.find(({ event }) => event === 'add-link');
  const answered = await ask('delivery', { delivery: String(answer?.id) });
  expect(answered.read).toMatchObject({ outcome: 'answer', action: 'add-link' });
  expect(answered.courses.map(({ action }) => action)).toEqual(['add-link']);
});

it('tells of an item what it holds, why it is linked or not, and its waterfall', async () => {
  const taskId = await newBug();
  await edit({ title: 'Door', body: 'It fixes BUG-1, and not BUG-9.', updated: '2026-01-05T08:00:01Z' });
  await edit({ title: 'Door two', body: 'It fixes BUG-1, and not BUG-9.', updated: '2026-01-05T08:00:02Z' });
  for (const name of ['acme/app#1', 'https://github.com/acme/app/pull/1', 'bug-1']) {
    const { items } = await ask('items', { name });
    expect(items).toHaveLength(1);
    expect(items[0]).toMatchObject({
      label: 'acme/app#1 Door two',
      fields: { title: 'Door two', state: 'open' },
      tasks: [{ taskId, key: 'BUG-1', name: 'BUG-1' }],
      finished: false,
    });
    expect(items[0]?.explained.links.map(({ task, state }) => [task, state])).toEqual([['BUG-1', 'linked']]);
    expect(items[0]?.explained.others.map(({ text, why }) => [text, why])).toEqual([
      ['BUG-9', 'there is no task and no item of that name'],
    ]);
    expect(items[0]?.deliveries).toHaveLength(2);
    const [latest, ...others] = items[0]?.courses.map(({ action }) => action) ?? [];
    expect(latest).toBe('record-pull-request');
    expect(new Set(others)).toEqual(new Set(['add-link', 'record-pull-request']));
    expect(describeItems(await ask('items', { name }))).toMatch(/ {2}request {17}\|[ █]{40}\| \d/);
  }
  await expect(ask('items', { name: 'acme/app#11' })).rejects.toMatchObject({
    code: 'not_found',
    message: expect.stringContaining('did you mean "acme/app#1"?'),
  });
});

it('judges a replayed delivery again: what its item lacks comes back, and twice is once', async () => {
  await newBug();
  await edit({ title: 'Door', body: 'It fixes BUG-1.' }, 'the-delivery');
  const { query } = world.partition().store;
  await query.deleteFrom('mentions').execute();
  await query.deleteFrom('entities').where('kind', '=', 'link').execute();
  await query.updateTable('entities').set({ known: null }).where('kind', '=', 'pull_request').execute();
  expect((await ask('items', { name: 'acme/app#1' })).items[0]?.tasks).toEqual([]);
  const { delivery } = await ask('delivery', { delivery: 'the-delivery' });
  const wish = { about: 'acme/app#1', preview: false };
  expect(await ask('replay', { ...wish, preview: true })).toMatchObject({ replayed: 1, own: 0, purged: 0 });
  expect((await ask('delivery', { delivery: 'the-delivery' })).delivery.state).toBe('applied');
  expect(await ask('replay', wish)).toMatchObject({ replayed: 1, pending: 0 });
  await world.settled();
  await world.clock.advance(60_000);
  const after = await ask('delivery', { delivery: 'the-delivery' });
  expect(after.delivery).toMatchObject({ id: delivery.id, state: 'applied', reason: null });
  const [item] = (await ask('items', { name: 'acme/app#1' })).items;
  expect(item?.tasks.map(({ key }) => key)).toEqual(['BUG-1']);
  const recorded = after.courses.filter(({ action }) => action === 'record-pull-request');
  expect(recorded.map(({ deliveries }) => deliveries.map(({ key }) => key))).toEqual([
    ['the-delivery'],
    ['the-delivery'],
  ]);

  await query.updateTable('inbox').set({ body: null, unpacked_length: null }).where('id', '=', delivery.id).execute();
  expect(await ask('replay', wish)).toMatchObject({ replayed: 0, purged: 1 });
  expect(await ask('delivery', { delivery: 'the-delivery' })).toMatchObject({ read: null, body: null });
});
