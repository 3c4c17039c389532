import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openSite, type Site, type Story } from '../support/crash-site.ts';
import { sampleOf } from '../support/depth.ts';
import { pullEvent } from '../support/github-payloads.ts';

/** Of the steps of a deep run, one of so many. */
const EVERY = 12;

/** Most of a run is spent waiting for the quota, so more run at once than there are processors. */
const AT_ONCE = 3 * availableParallelism();

const at = (second: number) => `2026-01-05T09:00:${String(second).padStart(2, '0')}Z`;
const pull = (id: string, setting: Parameters<typeof pullEvent>[0]) => ({ id, payload: pullEvent(setting) });

/** Two pull requests: records, two links, a key that leaves a title, a merge and a close. */
const STORY: Story = [
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

const compileCache = mkdtempSync(join(tmpdir(), 'worksync-compiled-'));
afterAll(() => rmSync(compileCache, { recursive: true, force: true }));

async function openWithTasks(): Promise<{ site: Site; tasks: string[] }> {
  const site = await openSite(compileCache);
  const tasks: string[] = [];
  for (const title of ['First', 'Second']) {
    tasks.push((await site.people.createBug({ body: { title } }, {})).body.taskId);
  }
  return { site, tasks };
}

/** What people find in the workspace in the end, and what it took. */
async function held(site: Site, tasks: readonly string[]) {
  const { pullRequests } = (await site.people.listPullRequests({ query: {} }, {})).body;
  const records = pullRequests.map(({ identifier, title, state }) => `${identifier} ${title} ${state}`).sort();
  const links = await Promise.all(
    tasks.map(async (taskId) => (await site.people.listWorkItems({ taskId }, {})).body.workItems.map(({ url }) => url)),
  );
  const created = [...site.seen.created].map(([path, count]) => [path.replace(/^.*\//, ''), count] as const);
  const made = (kind: string) => created.filter(([name]) => name === kind).reduce((sum, [, count]) => sum + count, 0);
  return { records, links, made: { records: made('pull-requests'), links: made('work-items') } };
}

const EXPECTED = {
  records: ['1 Fix closed', '2 Also merged'],
  links: [[], ['https://github.com/acme/app/pull/2']],
  made: { records: 2, links: 2 },
};

/** Runs into the kill, starts again, and says what is wrong then. */
async function survive(killAt: number): Promise<boolean> {
  const { site, tasks } = await openWithTasks();
  try {
    const end = await site.runChild(STORY, killAt);
    const daemon = await site.runHere(STORY);
    const inbox = await daemon.partition.store.query
      .selectFrom('inbox')
      .select(['delivery_key', 'state'])
      .where('source', '=', 'webhook')
      .execute();
    const status = await daemon.partition.status();
    await daemon.stop();
    const ended = inbox.filter(({ state }) => state === 'applied' || state === 'superseded');
    expect(new Set(ended.map((row) => row.delivery_key)), `step ${killAt}`).toEqual(site.acknowledged);
    expect([...site.acknowledged].sort()).toEqual(DELIVERIES.toSorted());
    expect(await held(site, tasks), `step ${killAt}`).toEqual(EXPECTED);
    expect(site.seen.refused, `step ${killAt}: requests over the quota`).toBe(0);
    expect(status.changes.byState, `step ${killAt}`).toEqual({ pending: 0, sending: 0, unknown: 0, held: 0 });
    return end.killed;
  } finally {
    await site.close();
  }
}

describe('kill -9', () => {
  let steps = 0;

  it('is numbered at every commit and every request, as counted at the database and at the service', async () => {
    const { site, tasks } = await openWithTasks();
    const end = await site.runChild(STORY, 0);
    if (end.killed) throw new Error('nobody was to kill it');
    expect(end.steps).toBe(2 * (end.commits + site.seen.requests));
    expect(site.seen.requests).toBeGreaterThanOrEqual(9);
    expect(end.commits).toBeGreaterThanOrEqual(2 * site.seen.requests);
    expect(await held(site, tasks)).toEqual(EXPECTED);
    expect(site.seen.refused).toBe(0);
    await site.close();
    steps = end.steps;
  });

  it('at any step loses nothing, doubles nothing and keeps both windows', async () => {
    expect(steps).toBeGreaterThan(0);
    const all = Array.from({ length: steps }, (_, index) => index + 1);
    const left = [...sampleOf(all, EVERY)];
    const survived: number[] = [];
    const work = async () => {
      for (let step = left.shift(); step !== undefined; step = left.shift()) {
        if (!(await survive(step))) survived.push(step);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    // Deliveries that come in close together may share a commit, so a run can be a little shorter than the counted one.
    expect(survived.filter((step) => step < steps * 0.8)).toEqual([]);
  });
});
