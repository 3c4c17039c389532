import { expect } from 'vitest';
import { pullEvent } from '../vendors/github-payloads.ts';
import { openSite, type Site, type Story, type Witness } from './crash-site.ts';

const at = (second: number) => `2026-01-05T09:00:${String(second).padStart(2, '0')}Z`;
const pull = (id: string, setting: Parameters<typeof pullEvent>[0]) => ({ id, payload: pullEvent(setting) });

/** Two pull requests: records, two links, a key that leaves a title, a merge and a close. */
export const STORY: Story = [
  [
    pull('one-opened', { number: 1, title: 'BUG-1: fix', updated: at(1) }),
    pull('two-opened', { number: 2, title: 'Also', head: 'bug-2-too', updated: at(2) }),
  ],
  [
    pull('one-renamed', { number: 1, title: 'Fix', updated: at(3) }),
    pull('two-merged', { number: 2, title: 'Also', head: 'bug-2-too', merged: true, updated: at(5) }),
    pull('one-closed', { number: 1, title: 'Fix', state: 'closed', updated: at(6) }),
  ],
];
const DELIVERIES = STORY.flat().map(({ id }) => id);

export async function openWithTasks(witness?: Witness): Promise<{ site: Site; tasks: string[] }> {
  const site = await openSite(witness);
  const tasks: string[] = [];
  for (const title of ['First', 'Second']) {
    tasks.push((await site.people.createBug({ body: { title } }, {})).body.taskId);
  }
  return { site, tasks };
}

/** The end state that people find in the workspace, and the requests that it took. */
export async function held(site: Site, tasks: readonly string[]) {
  const { pullRequests } = (await site.people.listPullRequests({ query: {} }, {})).body;
  const records = pullRequests.map(({ identifier, title, state }) => `${identifier} ${title} ${state}`).sort();
  const links = await Promise.all(
    tasks.map(async (taskId) => (await site.people.listWorkItems({ taskId }, {})).body.workItems.map(({ url }) => url)),
  );
  const created = [...site.seen.created].map(([path, count]) => [path.replace(/^.*\//, ''), count] as const);
  const made = (kind: string) => created.filter(([name]) => name === kind).reduce((sum, [, count]) => sum + count, 0);
  return { records, links, made: { records: made('pull-request-records'), links: made('work-items') } };
}

export const EXPECTED = {
  records: ['1 Fix closed', '2 Also merged'],
  links: [[], ['https://github.com/acme/app/pull/2']],
  made: { records: 2, links: 2 },
};

/** Tells the rest of the story to a daemon in this process, and says what is wrong then. */
export async function expectGoodEnd(site: Site, tasks: readonly string[], what: string): Promise<void> {
  const daemon = await site.runHere(STORY);
  const inbox = await daemon
    .partition()
    .store.query.selectFrom('inbox')
    .select(['delivery_key', 'state'])
    .where('source', '=', 'webhook')
    .execute();
  const status = await daemon.partition().status();
  await daemon.stop();
  const ended = inbox.filter(({ state }) => state === 'applied' || state === 'superseded');
  expect([...site.acknowledged].sort()).toEqual(DELIVERIES.toSorted());
  expect({
    what,
    ended: new Set(ended.map((row) => row.delivery_key)),
    held: await held(site, tasks),
    refused: site.seen.refused,
    changes: status.changes.byState,
  }).toEqual({
    what,
    ended: site.acknowledged,
    held: EXPECTED,
    refused: 0,
    changes: { pending: 0, sending: 0, unknown: 0, held: 0 },
  });
}
