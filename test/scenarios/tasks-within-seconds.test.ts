import { afterEach, expect, it } from 'vitest';
import { readTaskUpdateFacts } from '../../src/store/task-update-facts.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { drawn, sampleOf } from '../support/harness/depth.ts';
import { type PullSetting, pullEvent, pullObject } from '../support/vendors/github-payloads.ts';

/** Events follow one another within seconds, and nobody edits: each task follows its work, and belongs to the rule that moved it. */

const PULLS = drawn(40, 8);
const SECOND = 1_000;
/** Seconds from the opening of a pull request to its labels. */
const LATER = [1.5, 2, 2.7, 3.3, 4, 4.5];
const LABELS = ['bug', 'urgent', 'api', 'web'];

let world: World;
afterEach(() => world.close());

async function open(taskUpdate: 'whole' | 'fields', hasWebhooks: boolean): Promise<void> {
  const config = {
    rules: { workflow: { preset: 'standard' } },
    quota: { requests: 5_000, burst: 1_500 },
  };
  const workspace = { api: { taskUpdate } };
  world = await createWorld({ quota: { requests: 5_000, burst: 1_500 }, config: { ...config, workspace } });
  if (!hasWebhooks) return;
  const url = `${world.daemon().address}/webhooks/test/workspace`;
  const { key, secret } = (await world.people.createWebhook({ body: { url } }, {})).body;
  await world.restart({ keepPort: true, config: { ...config, workspace: { ...workspace, webhook: { key, secret } } } });
}

const setting = (number: number, labels: readonly string[] = []): PullSetting => {
  const updated = new Date(world.clock.now()).toISOString();
  return { number, title: `Fixes BUG-${number}`, labels, updated };
};

async function deliver(event: string, payload: object): Promise<void> {
  expect(await world.deliver(event, payload)).toBe(202);
}

/** Four labels and a request for changes, all within half a second. */
async function change(number: number): Promise<void> {
  for (const count of LABELS.keys()) {
    await deliver('pull_request', pullEvent(setting(number, LABELS.slice(0, count + 1)), 'labeled'));
    await world.clock.advance(SECOND / 10);
  }
  const pull_request = pullObject(setting(number, LABELS));
  const submitted_at = new Date(world.clock.now()).toISOString();
  const review = { id: number, state: 'changes_requested', submitted_at, user: { login: 'ben', id: 8 } };
  const { repository, sender } = pullEvent(setting(number));
  await deliver('pull_request_review', { action: 'submitted', review, pull_request, repository, sender });
}

const SERVERS = [
  ['whole', true],
  ['whole', false],
  ['fields', true],
  ['fields', false],
] as const;

it.each(sampleOf(SERVERS, 3))(
  'each task ends in progress, by the form %s, with webhooks of the workspace: %s',
  async (form, hasWebhooks) => {
    await open(form, hasWebhooks);
    for (let task = 0; task < PULLS; task++) await world.bug(`Task ${task}`);
    await world.settled();
    for (let number = 1; number <= PULLS; number++) {
      await deliver(
        'pull_request',
        pullEvent({ ...setting(number), created: setting(number).updated as string }, 'opened'),
      );
      await world.clock.advance((LATER[number % LATER.length] as number) * SECOND);
      await change(number);
    }
    await world.clock.advance(180 * SECOND);
    await world.settled();
    const { tasks } = (await world.people.listTasks({ query: { all: true } }, {})).body;
    expect(tasks.map(({ status }) => status)).toEqual(tasks.map(() => 'in_progress'));
    for (const { key } of tasks) {
      const [explained] = (await world.ask('explain', { target: key })).statuses;
      expect(explained?.setBy).toMatchObject({ who: 'worksync', rule: 'standard: changes' });
    }
    expect(await readTaskUpdateFacts(world.partition().store.query)).not.toHaveProperty('contested');
  },
);
