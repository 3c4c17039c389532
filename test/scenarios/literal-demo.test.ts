import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createLogger } from '../../src/platform/observe/pino-logger.ts';
import { createScrubber } from '../../src/platform/observe/scrubber.ts';
import { signedDeliveries } from '../../src/reference-service/demo/bundled-deliveries.ts';
import { TASKS } from '../../src/reference-service/demo/story.ts';
import { OWN_VARIANT } from '../../src/reference-service/http/variant.ts';
import { createWorld, WEBHOOK_SECRET, type World } from '../support/harness/daemon.ts';
import { TOP } from '../support/harness/processes.ts';

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
