import { afterEach, expect, it } from 'vitest';
import { SyncError } from '../../src/model/errors.ts';
import type { HttpClient, HttpRequest } from '../../src/platform/http/http-client.ts';
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

/** Until the process ends. */
function unanswered({ signal }: HttpRequest): Promise<never> {
  return new Promise((_resolve, reject) => {
    const end = () => reject(new SyncError('outcome_unknown', 'the process is no more'));
    signal?.addEventListener('abort', end);
  });
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

it('one that was ignored, and why; one that came twice', async () => {
  await open('debug');
  await world.deliver('star', { action: 'created', repository: { id: 5001, full_name: 'acme/app' } }, { id: 'a-star' });
  await edit({ title: 'Door' }, 'twice');
  await world.settled();
  await edit({ title: 'Door' }, 'twice');
  const [, star] = courseOf('a-star');
  expect(star).toMatchObject({ msg: 'delivery processed', outcome: 'ignored', reason: expect.any(String) });
  const outcomes = lines.filter(({ key, msg }) => key === 'twice' && msg === 'delivery accepted').map(told);
  expect(outcomes).toEqual([
    ['delivery accepted', 'new', null],
    ['delivery accepted', 'repeated', null],
  ]);
});

it('one over a restart: what was in flight when the process ended is told too', async () => {
  let isAnswered = true;
  const http = (own: HttpClient): HttpClient => ({
    ...own,
    request: (request) => (isAnswered || request.method === 'GET' ? own.request(request) : unanswered(request)),
  });
  await open('debug', { http });
  isAnswered = false;
  await edit({ title: 'Door' }, 'the-delivery');
  await world.until(() => lines.some(({ msg, deliveries }) => msg === 'request is sent' && String(deliveries) !== ''));
  const startAgain = world.kill();
  isAnswered = true;
  await startAgain();
  await world.settled();
  const messages = courseOf('the-delivery').map(({ msg }) => msg);
  expect(messages[0]).toBe('delivery accepted');
  expect(messages.at(-1)).toBe('request answered');
  expect(messages).toContain('request with unknown outcome found at the start');
});

it('what was answered is told at the level that is standard', async () => {
  await open('info');
  await edit({ title: 'Door' }, 'the-delivery');
  await world.settled();
  const answered = lines.filter(({ msg }) => msg === 'request answered');
  expect(answered.some(({ deliveries }) => (deliveries as number[]).length === 1)).toBe(true);
  expect(lines.every(({ level }) => level !== 'debug')).toBe(true);
});
