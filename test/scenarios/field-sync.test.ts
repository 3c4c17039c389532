import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WorkItem } from '../../src/model/item.ts';
import { SYNC_FIELD_NAMES, type SyncField } from '../../src/model/written-task.ts';
import { createTracker, issue, tell } from '../support/fakes/tracker.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';

let world: World;
let userId: string | null;
/** The rules in use. */
let present = '';
beforeAll(start);
afterAll(() => world.close());

async function start(): Promise<void> {
  const tracker = { connector: 'tracker', webhookSecrets: WEBHOOK_SECRET, poll: 'off' };
  world = await createWorld({ connectors: [createTracker().connector], config: { connections: { tracker } } });
  ({ userId } = await world.bug('Mine'));
}

const RULE = {
  create: 'bug',
  title: '{identifier}: {title}',
  labels: ['external'],
  priority: { P1: 'urgent', P2: 'low' },
};
const FIRST = {
  ...{ title: 'Door sticks', description: 'In winter', priority: 'P1', labels: ['ui', 'door'] },
  assignees: ['ann'],
};
type Edit = Parameters<World['people']['updateTask']>[0]['body'];

/** The item of the present test, as the tracker reported it last. */
let number = 0;
let item: Partial<WorkItem>;

/** A new item, of which the rule makes a task. */
async function open(
  rule: object = { sync: SYNC_FIELD_NAMES },
  rules: object = {},
  workspace: object = {},
): Promise<void> {
  const users = { tracker: { ann: userId, zed: 'usr_unknown' } };
  const config = { rules: { triage: [{ ...RULE, ...rule }], ...rules }, users, workspace };
  if (present !== JSON.stringify(config)) await world.restart({ config });
  present = JSON.stringify(config);
  item = FIRST;
  number++;
  await report({});
  expect(await task()).toMatchObject({ title: titled('Door sticks'), priority: 'urgent', assigneeIds: [userId] });
}

const titled = (title: string) => `ENG-${number}: ${title}`;
const line = () => `

Source: ${issue(number).url}`;

async function report(fields: Partial<WorkItem>): Promise<void> {
  await world.clock.advance(1_000);
  item = { ...item, ...fields };
  const body = issue(number, { updatedAt: world.clock.now(), ...item });
  expect(await tell(world.daemon().address, body, { secret: WEBHOOK_SECRET })).toBe(202);
  await world.settled();
}

async function task() {
  const made = (await world.tasks()).find(({ source }) => source === issue(number).key);
  return world.task(made?.taskId as string);
}

async function edit(body: Edit): Promise<void> {
  await world.people.updateTask({ taskId: (await task()).taskId, body }, {});
}

async function release(field: SyncField): Promise<void> {
  await world.ask('release-field', { task: (await task()).key ?? '', field });
  await world.settled();
}

/** The rule sets a label too, which therefore belongs to the rule. */
const MOVE = {
  workflow: { rules: [{ when: { workItem: 'in_progress' }, set: { status: 'in_progress', addLabels: ['door'] } }] },
};

describe('the fields of a task that was created for a work item', () => {
  it('follow the item by one update, and an item that is the same as before causes none', async () => {
    await open();
    const changed = {
      title: 'Door is stuck',
      description: 'Always',
      priority: 'P2',
      labels: ['door', 'new'],
      assignees: [],
    };
    expect(await world.costOf(() => report(changed))).toBe(2);
    expect(await task()).toMatchObject({
      ...{ title: titled('Door is stuck'), description: `Always${line()}`, priority: 'low', status: 'open' },
      ...{ labels: ['door', 'external', 'new'], assigneeIds: [] },
    });
    expect(await world.costOf(() => report(changed))).toBe(0);
    await report({ title: 'Door sticks again' });
    expect(await task()).toMatchObject({ title: titled('Door sticks again'), priority: 'low' });
  });

  it.each<[field: SyncField, edited: Edit, changed: Partial<WorkItem>, released: object]>([
    ['title', { title: 'By hand' }, { title: 'New' }, { title: 'New' }],
    ['priority', { priority: 'medium' }, { priority: 'P2' }, { priority: 'low' }],
    ['priority', { priority: 'medium' }, { priority: null }, { priority: 'none' }],
    ['description', { description: 'By hand' }, { description: 'New' }, { description: 'New' }],
  ])('leave the %s to a person until its release: %j %j', async (field, edited, changed, released) => {
    await open();
    await edit(edited);
    await report(changed);
    expect(await task()).toMatchObject(edited);
    await report({ [field]: 'P1' });
    await report(changed);
    expect(await task()).toMatchObject(edited);
    await release(field);
    const found = await task();
    expect({
      title: found.title.split(': ').at(-1),
      priority: found.priority,
      description: found.description?.split('\n')[0],
    }).toMatchObject(released);
  });

  it('keep labels that worksync did not add, and lack those that a person removed', async () => {
    await open();
    await edit({ labels: ['external', 'door', 'mine'] });
    await report({ labels: ['ui', 'mine'] });
    expect((await task()).labels).toEqual(['external', 'mine']);
    await report({ labels: [] });
    expect((await task()).labels).toEqual(['external', 'mine']);
    await report({ labels: ['ui'] });
    expect((await task()).labels).toEqual(['external', 'mine', 'ui']);
    await edit({ labels: [] });
    await release('labels');
    expect((await task()).labels).toEqual(['ui', 'external']);
  });

  it('do not delay the status if the workspace refuses them', async () => {
    await open(undefined, MOVE);
    await report({});
    await report({ assignees: ['zed'], state: 'in_progress' });
    expect(await task()).toMatchObject({ status: 'in_progress', assigneeIds: [expect.any(String)] });
    const held = await world.ask('changes', { states: ['held'], limit: 10 });
    expect(held).toMatchObject([{ error: expect.stringContaining('unknown user') }]);
    await world.ask('changes-drop', { targets: held.map(({ entity }) => entity) });
  });
});
