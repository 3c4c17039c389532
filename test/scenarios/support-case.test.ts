import { afterEach, expect, it } from 'vitest';
import { createLogger } from '../../src/platform/observe/pino-logger.ts';
import { createScrubber } from '../../src/platform/observe/scrubber.ts';
import { createWorld, type World, type WorldOptions } from '../support/harness/daemon.ts';
import { pullEvent } from '../support/vendors/github-payloads.ts';

/** The log alone shows the course of a delivery: one line for each step, all with its number. */

type Line = Readonly<Record<string, unknown>>;

let world: World;
let lines: Line[] = [];
afterEach(() => world.close());

async function open(level: 'debug' | 'info', setting: WorldOptions = {}): Promise<void> {
  lines = [];
  const write = (text: string) => void lines.push(JSON.parse(text) as Line);
  const logger = createLogger({ level, scrubber: createScrubber(), destination: { write } });
  world = await createWorld({ logger, ...setting });
  await world.bug();
  await world.settled();
}

function edit(setting: Parameters<typeof pullEvent>[0], id: string): Promise<number> {
  return world.deliver('pull_request', pullEvent({ body: 'BUG-1', updated: '2026-01-05T08:00:01Z', ...setting }), {
    id,
  });
}

/** From the vendor's id, which a person has, to the number, and from there to everything. */
function courseOf(key: string): Line[] {
  const number = lines.find((line) => line['key'] === key)?.['delivery'];
  expect(number).toEqual(expect.any(Number));
  return lines.filter(
    ({ delivery, deliveries }) => delivery === number || (Array.isArray(deliveries) && deliveries.includes(number)),
  );
}

const told = (line: Line) => [line['msg'], line['outcome'] ?? line['action'], line['status'] ?? null];

it('one delivery, from its receipt to the answers of its requests', async () => {
  await open('debug');
  await edit({ title: 'Other', number: 2, body: '' }, 'another');
  await edit({ title: 'Door' }, 'the-delivery');
  await world.settled();
  const course = courseOf('the-delivery');
  expect(course.slice(0, 2).map(told)).toEqual([
    ['delivery accepted', 'new', null],
    ['delivery processed', 'applied', null],
  ]);
  expect(course[0]).toMatchObject({ level: 'debug', workspace: 'test', connection: 'github', event: 'pull_request' });
  expect(course[1]).toMatchObject({ key: 'the-delivery', items: ['github:github.com:5001:pull:1'] });
  for (const action of ['add-link', 'record-pull-request']) {
    const own = course.filter((line) => line['action'] === action);
    expect(own.map(told)).toEqual([
      ['request is sent', action, null],
      ['request answered', action, 201],
    ]);
    expect(own[0]).toMatchObject({ level: 'debug', waited: expect.any(Number), lane: expect.any(String) });
    expect(own[1]).toMatchObject({ level: 'info', entity: own[0]?.['entity'] });
  }
  expect(course).toHaveLength(6);
});
