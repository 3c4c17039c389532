import { afterEach, expect, it } from 'vitest';
import type { Fields } from '../bench/quota/references/trace.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { githubVendor } from '../support/vendors/provider-servers/github.ts';
import { gitlabVendor } from '../support/vendors/provider-servers/gitlab.ts';
import { linearTracker } from '../support/vendors/provider-servers/linear.ts';
import {
  type Hook,
  openProvider,
  type Provider,
  type Tracker,
  type Vendor,
} from '../support/vendors/provider-servers/provider.ts';

const SECRET = 'a webhook secret for tests only';
const MINUTE = 60_000;
const RULES = {
  triage: [{ create: 'bug' }],
  workflow: {
    preset: 'standard',
    rules: [{ when: { pullRequest: 'merged', base: 'main', link: 'carrying' }, set: { status: 'completed' } }],
  },
};
const BLANK: Fields = {
  ...{ title: '', description: '', state: 'open', draft: false, head: 'abc' },
  ...{ reviewers: [], labels: [], assignees: [] },
};

let world: World;
let forges: Readonly<Record<'github' | 'gitlab', Provider<Vendor>>>;
let linear: Provider<Tracker>;
let deliveries = 0;
afterEach(async () => {
  await world.close();
  for (const provider of [...Object.values(forges), linear]) await provider.close();
});

async function open(): Promise<void> {
  world = await createWorld();
  await world.settled();
  const { clock } = world;
  forges = {
    github: await openProvider(githubVendor(SECRET), { clock }),
    gitlab: await openProvider(gitlabVendor(SECRET), { clock }),
  };
  linear = await openProvider(linearTracker(SECRET), { clock });
  const connections = [...Object.values(forges), linear].map(({ vendor, url }) => {
    const webhookSecrets = 'secret' in vendor ? vendor.secret : SECRET;
    return [vendor.id, { connector: vendor.id, ...vendor.options(url), webhookSecrets, poll: '10m' }];
  });
  await world.restart({ config: { connections: Object.fromEntries(connections), rules: RULES } });
  await clock.advance(MINUTE);
}

/** A pull request changes, and its webhook is sent unless it gets lost: then a poll finds the change. */
async function pull(
  forge: 'github' | 'gitlab',
  number: number,
  change: Partial<Fields>,
  isLost = false,
): Promise<void> {
  const provider = forges[forge];
  const before = provider.pulls.get(number)?.fields ?? BLANK;
  const line = { at: 0, connection: forge, item: `app/${number}`, updated: 0, event: 'edited' };
  const held = provider.happen({ ...line, fields: { ...before, ...change } }, world.clock.now());
  const event = before === BLANK ? 'opened' : held.fields.state === before.state ? 'edited' : 'closed';
  if (!isLost) await send(forge, provider.vendor.hook(held, event, `delivery-${++deliveries}`));
  await world.clock.advance(isLost ? 15 * MINUTE : 3 * MINUTE);
}

async function issue(number: number, state: 'open' | 'done'): Promise<void> {
  const event = linear.issues.has(number) ? 'updated' : 'created';
  const held = linear.change(number, { title: 'An issue', state });
  const hook = linear.vendor.issueHook(held, {
    event,
    delivery: `delivery-${++deliveries}`,
    sentAt: world.clock.now(),
  });
  if (hook) await send('linear', hook);
  await world.clock.advance(3 * MINUTE);
}

async function send(connection: string, { headers, body }: Hook): Promise<void> {
  const url = `${world.daemon().address}/webhooks/test/${connection}`;
  const { status } = await fetch(url, { method: 'POST', headers, body });
  expect([200, 202]).toContain(status);
}

/** A person sets the status of a task, as the number of its key names it. */
async function person(number: number, status: 'planned' | 'blocked'): Promise<void> {
  const { taskId = '' } = (await world.tasks()).find(({ key }) => key === `BUG-${number}`) ?? {};
  await world.people.updateTask({ taskId, body: { status } }, {});
  await world.clock.advance(3 * MINUTE);
}

it('ends as the rules say', async () => {
  await open();
  for (let task = 0; task < 7; task++) await world.bug(`Task ${task}`);
  await pull('github', 1, { title: 'BUG-1 one' });
  await pull('github', 2, { title: 'BUG-2 first half' });
  await pull('gitlab', 2, { title: 'BUG-2 second half', draft: true });
  await pull('gitlab', 3, { title: 'BUG-3' });
  await pull('github', 4, { title: 'BUG-4' });
  await pull('github', 5, { title: 'BUG-5', draft: true });
  await pull('gitlab', 6, { title: 'Other work', description: 'See BUG-6' });
  await pull('gitlab', 7, { title: 'BUG-7', draft: true });
  await issue(1, 'open');
  const begun = { 'BUG-1': 'review', 'BUG-2': 'review', 'BUG-3': 'review', 'BUG-4': 'review', 'BUG-5': 'in_progress' };
  expect(await world.statuses()).toMatchObject({ ...begun, 'BUG-6': 'open', 'BUG-7': 'in_progress', 'BUG-8': 'open' });

  await person(3, 'blocked');
  await person(4, 'planned');
  await pull('github', 4, { labels: ['bug'] });
  await pull('github', 1, { state: 'merged' }, true);
  await pull('github', 2, { state: 'merged' });
  expect(await world.statuses()).toMatchObject({ 'BUG-1': 'completed', 'BUG-2': 'in_progress', 'BUG-4': 'planned' });

  const revive = world.kill();
  await revive();
  await pull('gitlab', 2, { draft: false, state: 'merged' }, true);
  await pull('gitlab', 3, { state: 'merged' });
  await pull('github', 5, { state: 'closed' });
  await pull('gitlab', 6, { state: 'merged' });
  await pull('gitlab', 7, { draft: false });
  await pull('github', 8, { title: 'Closes BUG-8', state: 'open' });
  await pull('github', 8, { state: 'merged' });
  await issue(1, 'done');
  await issue(1, 'open');
  expect(await world.statuses()).toEqual({
    ...{ 'BUG-1': 'completed', 'BUG-2': 'completed', 'BUG-3': 'completed', 'BUG-4': 'planned', 'BUG-5': 'open' },
    ...{ 'BUG-6': 'open', 'BUG-7': 'review', 'BUG-8': 'in_progress' },
  });
  expect((await world.requests()).refused).toBe(0);
});
