import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Asked } from '../../src/admin/admin-operations.ts';
import { describeDelivery } from '../../src/cli/deliveries/deliveries.ts';
import { describeItems } from '../../src/cli/items/show-items.ts';
import { standardSignature } from '../../src/connectors/kit/verify.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { type PullSetting, pullEvent } from '../support/vendors/github-payloads.ts';

/** The course of a delivery and of an item, as pages and commands show it. */

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
  expect(told.delivery).toMatchObject({
    key: 'the-delivery',
    source: 'webhook',
    connector: 'github',
    state: 'applied',
  });
  expect(told.verified).toContain('webhook secret');
  expect(told.read).toMatchObject({
    outcome: 'items',
    count: 1,
    items: [{ name: 'acme/app#1', label: 'acme/app#1 Door', decision: 'changed', isFetched: false }],
  });
  expect(told.body?.encoding).toBe('utf8');
  expect(JSON.parse(told.body?.text ?? '')).toMatchObject({ pull_request: { title: 'Door' } });
  expect(told.read?.outcome === 'items' && JSON.parse(told.read.decoded.text)).toMatchObject({ title: 'Door' });

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
  expect(text).toContain('says      acme/app#1 Door  (github:github.com:5001:pull:1): changed it');
  expect(text).toContain('link of acme/app#1 to BUG-1: answered 201  add-link, request ');
  expect(text).toMatch(/ {2}wait for the quota {6}\|[ █]{40}\| \d/);
  expect(text).toContain('body:\n{"');
  const byNumber = await ask('delivery', { delivery: String(told.delivery.id) });
  expect(byNumber).toEqual(told);

  const answer = (await list({ own: true })).deliveries.find(({ event }) => event === 'add-link');
  const answered = await ask('delivery', { delivery: String(answer?.id) });
  expect(answered.read).toMatchObject({ outcome: 'answer', action: 'add-link' });
  expect(answered.courses.map(({ action }) => action)).toEqual(['add-link']);
});

it('lists deliveries by what people ask for, page by page, and hides own answers', async () => {
  await newBug();
  for (const title of ['One', 'Two', 'Three']) await edit({ title, body: 'BUG-1' }, `id-${title}`);
  await edit({ title: 'Other', number: 2 }, 'id-other');
  const all = await list();
  expect(all.deliveries.map(({ key }) => key)).toEqual(['id-other', 'id-Three', 'id-Two', 'id-One']);
  expect(all.next).toBeNull();
  expect(all.deliveries[1]?.items?.map(({ label }) => label)).toEqual(['acme/app#1 Three']);
  expect((await list({ own: true })).deliveries.length).toBeGreaterThan(4);
  expect(new Set((await list({ source: 'answer' })).deliveries.map(({ source }) => source))).toEqual(
    new Set(['answer']),
  );

  const first = await list({ limit: 3 });
  const rest = await list({ limit: 3, before: first.next as number });
  expect([...first.deliveries, ...rest.deliveries].map(({ key }) => key)).toEqual(all.deliveries.map(({ key }) => key));

  const ofItem = ['id-Three', 'id-Two', 'id-One'];
  for (const about of ['acme/app#1', 'https://github.com/acme/app/pull/1', 'BUG-1'])
    expect((await list({ about })).deliveries.map(({ key }) => key)).toEqual(ofItem);
  expect((await list({ about: 'id-Two' })).deliveries.map(({ key }) => key)).toEqual(['id-Two']);
  expect((await list({ about: 'acme/app#1', limit: 2 })).deliveries.map(({ key }) => key)).toEqual(ofItem.slice(0, 2));
  expect((await list({ state: 'quarantined' })).deliveries).toEqual([]);
  await expect(list({ connection: 'githup' })).rejects.toMatchObject({
    code: 'usage',
    message: expect.stringContaining('did you mean "github"?'),
  });
});

it('finds what is rare far back, a piece at a time', async () => {
  await edit({ title: 'First' }, 'the-first');
  const { query } = world.partition().store;
  const row = await query
    .selectFrom('inbox')
    .selectAll()
    .where('delivery_key', '=', 'the-first')
    .executeTakeFirstOrThrow();
  await query.updateTable('inbox').set({ state: 'ignored' }).where('id', '=', row.id).execute();
  const { id: _, workspace: __, ...copy } = row;
  for (let at = 0; at < 21; at++) {
    const some = Array.from({ length: 1_000 }, (_, index) => ({
      ...copy,
      body: Buffer.from('{}'),
      unpacked_length: null,
      delivery_key: `copy-${at}-${index}`,
      received_at: row.received_at + 1 + at,
    }));
    await query.insertInto('inbox').values(some).execute();
  }
  const page = await list({ state: 'ignored' });
  expect(page.deliveries).toEqual([]);
  expect(page.next).not.toBeNull();
  const older = await list({ state: 'ignored', before: page.next as number });
  expect(older.deliveries.map(({ key }) => key)).toEqual(['the-first']);
  expect(older.next).toBeNull();
  await query.updateTable('inbox').set({ state: 'quarantined' }).where('id', '=', row.id).execute();
  expect((await list({ state: 'quarantined' })).deliveries.map(({ key }) => key)).toEqual(['the-first']);
  expect((await list({ state: 'quarantined', source: 'poll' })).deliveries).toEqual([]);
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
    const text = describeItems(await ask('items', { name }));
    expect(text).toContain('acme/app#1 Door two\n  open, as of 2026-01-05T08:00:02.000Z, through github\n');
    expect(text).toContain('not by "BUG-9" (description): there is no task and no item of that name');
    expect(text).toMatch(/ {2}request {17}\|[ █]{40}\| \d/);
    expect(new Set(others)).toEqual(new Set(['add-link', 'record-pull-request']));
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

it('does not replay what the workspace said, and names near ids where there is no such delivery', async () => {
  await edit({ title: 'Door' }, 'the-delivery');
  const own = (await list({ source: 'answer' })).deliveries.map(({ id }) => id);
  expect(await ask('replay', { ids: own, preview: false })).toMatchObject({ replayed: 0, own: own.length });
  await expect(ask('delivery', { delivery: 'the-del' })).rejects.toMatchObject({
    code: 'not_found',
    hint: expect.stringContaining('the-delivery'),
  });
  await expect(ask('replay', { ids: [999_999], preview: true })).rejects.toMatchObject({ code: 'not_found' });
});

it('names the fields of a generic item that have another type, and applies the others', async () => {
  const secret = `whsec_${Buffer.from('a signing key of tests alone').toString('base64')}`;
  const desk = { connector: 'generic', system: 'desk', webhookSecrets: secret, poll: 'off' };
  await world.restart({ config: { connections: { desk } } });
  const at = new Date(world.clock.now()).toISOString();
  const item = {
    id: '1',
    project: { id: 'web' },
    identifier: 'WEB-1',
    updatedAt: at,
    title: 'Door',
    labels: 'a, b',
    state: 7,
  };
  const body = Buffer.from(JSON.stringify({ type: 'item.updated', timestamp: at, data: item }));
  const headers = standardSignature(body, secret, { at: world.clock.now(), id: 'msg_1' });
  const answer = await fetch(`${world.daemon().address}/webhooks/test/desk`, { method: 'POST', headers, body });
  expect(answer.status).toBe(202);
  await world.settled();
  const told = await ask('delivery', { delivery: 'msg_1' });
  expect(told.delivery).toMatchObject({ state: 'applied', reason: 'fields of another type, not read: labels, state' });
  expect((await ask('items', { name: 'WEB-1' })).items).toMatchObject([{ title: 'Door' }]);
});

it('says how long a request waited for the quota, and not for further events', async () => {
  await world.close();
  world = await createWorld({ quota: { burst: 3, burstWindow: 60_000 } });
  for (const number of [1, 2, 3, 4])
    await world.deliver('pull_request', pullEvent({ title: 'Door', number }), { id: `id-${number}` });
  await world.settled();
  const { courses } = await ask('delivery', { delivery: 'id-4' });
  const spent = new Map(courses[0]?.phases.map(({ name, from, to }) => [name, (to ?? 0) - from]));
  expect(spent.get('slot')).toBeGreaterThan(30_000);
  expect(spent.get('due')).toBeLessThan(10_000);
});
