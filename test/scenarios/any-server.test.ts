import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { describeExplained, describeTaskStatus } from '../../src/cli/explained.ts';
import { describeItems } from '../../src/cli/show-items.ts';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { createLogger } from '../../src/platform/observe/pino-logger.ts';
import { createScrubber } from '../../src/platform/observe/scrubber.ts';
import { signedDeliveries } from '../../src/reference-service/demo/bundled-deliveries.ts';
import { TASKS } from '../../src/reference-service/demo/story.ts';
import { OWN_VARIANT } from '../../src/reference-service/http/variant.ts';
import { type Behaviours, eachOnce, singles } from '../support/fakes/plausible-server/dimensions.ts';
import { exceptionsOf } from '../support/fakes/plausible-server/exceptions.ts';
import { playDay } from '../support/fakes/plausible-server/story.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { isDeep } from '../support/harness/depth.ts';
import { TOP } from '../support/harness/processes.ts';

describe('any server', () => {
  /** A server that doubles links cannot have the route for records, which promises that it does not (W74). */
  const SERVERS: readonly Behaviours[] = (isDeep ? singles() : eachOnce()).map((behaviours) =>
    behaviours['link POST'] === 'doubles' ? { ...behaviours, 'pull-request routes': '404' } : behaviours,
  );

  it.each(SERVERS.map((behaviours) => [Object.values(behaviours).join(', '), behaviours] as const))(
    'works with a server that differs in: %s',
    async (_name, behaviours) => {
      const { wrong, codes } = await playDay(behaviours, { isLossy: true });
      const exceptions = exceptionsOf(behaviours);
      const stopped = exceptions.flatMap(({ stops }) => stops);
      expect(wrong.filter(({ feature }) => !stopped.includes(feature))).toEqual([]);
      const expected = exceptions.flatMap((exception) => exception.codes);
      if (exceptions.length === 0) expect(codes).toEqual([]);
      else expect(codes.filter((code) => expected.includes(code))).not.toEqual([]);
    },
  );
});

describe('the demo against a literal workspace', () => {
  /** Each task of the story but the last has a link. */
  const LINKED = TASKS.length - 1;

  /** As for people who start the demo: rules leave what happened before them as it is. */
  const AFTER_THE_STORY = Date.UTC(2027, 0, 4, 9);

  let world: World | undefined;
  afterEach(() => world?.close());

  /** `config/default.yaml`, whose demo secret is the one that the tests sign with. */
  function demoConfig(): Record<string, unknown> {
    const { name: _, ...config } = parse(readFileSync(join(TOP, 'config/default.yaml'), 'utf8')) as Record<
      string,
      unknown
    >;
    const [connection] = Object.values(config['connections'] as Record<string, object>);
    return { ...config, connections: { github: { ...connection, webhookSecrets: WEBHOOK_SECRET } } };
  }

  it('plays the demo against a literal workspace: the same links, nothing opened, nothing recorded', async () => {
    const aboutPulls: string[] = [];
    const lines: string[] = [];
    const destination = { write: (line: string) => void lines.push(line) };
    world = await createWorld({
      startAt: AFTER_THE_STORY,
      variant: { ...OWN_VARIANT, isLiteral: true },
      config: demoConfig(),
      logger: createLogger({ level: 'warn', scrubber: createScrubber(), destination }),
      faults: {
        async before({ method, url }) {
          if (url.includes('pull-request')) aboutPulls.push(`${method} ${url.split('/').at(-1)?.split('?')[0]}`);
          return undefined;
        },
      },
    });
    const { people, service } = world;
    const ids = new Map<string, string>();
    for (const { kind, title } of TASKS) {
      const request = { body: { title } };
      const { body } = await (kind === 'bug' ? people.createBug(request, {}) : people.createIdea(request, {}));
      const number = [...ids.keys()].filter((key) => key.startsWith(kind)).length + 1;
      ids.set(`${kind}-${number}`, body.taskId);
    }
    await world.settled();
    // A literal workspace has no keys, so the story's branches and titles name the ids of its tasks.
    for (const { headers, body } of await signedDeliveries(WEBHOOK_SECRET)) {
      const named = body.replace(/\b(bug|idea)-\d\b/gi, (key) => ids.get(key.toLowerCase()) ?? key);
      expect(await world.deliver(headers['x-github-event'] as string, JSON.parse(named))).toBe(202);
    }
    await world.until(async () => (await service().statistics()).workItems === LINKED);
    expect(await service().statistics()).toMatchObject({ pullRequests: 0, workItems: LINKED });
    // The first read shows that the workspace has no route for records.
    expect(aboutPulls).toEqual(['GET pull-request-records']);
    expect(lines.filter((line) => line.includes('read-pull-requests'))).toEqual([]);
    // That read, at most two lists of tasks, and a read and an addition for each link.
    const { received, refused } = await world.requests();
    expect(received).toBeLessThanOrEqual(9);
    expect(refused).toBe(0);
  });
});

describe('a workspace whose tasks have no keys', () => {
  /** A workspace whose tasks have no keys, and whose other fields are not as in the contract. */

  let world: World;
  afterEach(() => world.close());

  const PAGES = 'https://boards.example.com/acme';
  const PULL = 'https://github.com/acme/app/pull/1';

  /** @param idPrefix what ids of tasks begin with, instead of `tsk_` */
  function keyless(own: HttpClient, idPrefix: string): HttpClient {
    const rename = (text: string, from: string, to: string) => text.replaceAll(from, to);
    return {
      ...own,
      async request(request) {
        const path = rename(request.url, idPrefix, 'tsk_');
        const answer = await own.request({ ...request, url: path });
        const text = answer.body.toString();
        if (!text.includes('"taskId"')) return answer;
        const changed = JSON.parse(rename(text, 'tsk_', idPrefix), (name, value: unknown) => {
          if (name === 'key') return undefined;
          if (name === 'priority' || name === 'source') return null;
          if (name === 'updatedAt') return Date.parse(String(value));
          return name === 'labels' ? [{ id: 1, name: 'ui' }] : value;
        }) as object;
        return { ...answer, body: Buffer.from(JSON.stringify(changed)) };
      },
    };
  }

  async function open(idPrefix = 'tsk_', rules = {}): Promise<void> {
    world = await createWorld({
      http: (own) => keyless(own, idPrefix),
      config: { workspace: { web: [PAGES] }, rules },
    });
  }

  const newBug = async (title: string) => (await world.bug(title)).taskId;
  const linksOf = async (taskId: string) => (await world.links(taskId)).map(({ url }) => url);

  it('links a branch that names an id, and shows title and id', async () => {
    await open();
    const taskId = await newBug('Door sticks');
    await world.edit({ title: 'Oil the hinge', head: `mona/${taskId}-oil` }, 'branch');
    expect(await linksOf(taskId)).toEqual([PULL]);
    expect(await world.partition().status()).toMatchObject({ tasks: 1 });
    const name = `"Door sticks" (${taskId})`;
    const explained = describeExplained(await world.ask('explain', { target: PULL }));
    expect(explained).toContain(`${name}: linked`);
    expect(explained).toContain(`because task-id: "${taskId}-oil" in branch`);
    expect(explained).not.toContain('not by');
    expect(describeExplained(await world.ask('explain', { target: taskId }))).toContain(name);
    const items = describeItems(await world.ask('items', { name: 'acme/app#1' }));
    expect(items).toContain(`link of acme/app#1 to ${name}`);
    const page = await (await world.read(`/workspaces/test/item?name=${encodeURIComponent(PULL)}`)).text();
    expect(page).toContain(`&quot;Door sticks&quot; (${taskId})`);
  });

  it('names the id in the commands about a status and its fields', async () => {
    await open('tsk_', { workflow: { preset: 'standard' } });
    const taskId = await newBug('Door sticks');
    await world.people.updateTask({ taskId, body: { status: 'review' } }, {});
    await world.edit({ title: 'Oil the hinge', head: `mona/${taskId}-oil`, draft: true }, 'branch');
    const { statuses } = await world.ask('explain', { target: PULL });
    const text = statuses.flatMap((task) => describeTaskStatus({ ...task, fieldsOfPeople: ['title'] }));
    expect(text.join('\n')).toMatch(new RegExp(`release-status ${taskId}".* release-field ${taskId} title"`, 's'));
  });

  it('links titles, descriptions, trailers and addresses that name ids', async () => {
    await open();
    const ids = [];
    for (const title of ['a', 'b', 'c', 'd', 'e']) ids.push(await newBug(title));
    const [first, second, third, fourth, fifth] = ids;
    const body = `Part of ${second}, ${PAGES}/tasks/${third} and ${PAGES}/open/${fourth}.\n\nTask: ${fifth}`;
    await world.edit({ title: `${first}: hinge`, body }, 'texts');
    for (const taskId of ids) expect(await linksOf(taskId as string)).toEqual([PULL]);
  });

  it('learns from a list which ids the workspace gives, and links what named them before', async () => {
    await open('bug_');
    await world.settled();
    await world.clock.advance(60_000);
    const taskId = await newBug('Door sticks');
    await world.edit({ title: `${taskId.replace('tsk_', 'bug_')}: hinge` }, 'early');
    expect(await linksOf(taskId)).toEqual([]);
    // It may be a new task: the list is read.
    await world.edit({ number: 2, title: 'BUG-1' }, 'later');
    expect(await linksOf(taskId)).toEqual([PULL]);
  });
});
