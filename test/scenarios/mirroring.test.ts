import { createServer } from 'node:http';
import { afterEach, expect, it, onTestFinished } from 'vitest';
import { errorAnswer } from '../support/fakes/weather.ts';
import { createWorld, GITHUB, type World } from '../support/harness/daemon.ts';
import { sampleOf } from '../support/harness/depth.ts';
import { listenLocally } from '../support/harness/listen.ts';
import { type PullSetting, pullEvent, pullObject } from '../support/vendors/github-payloads.ts';

let world: World;

afterEach(() => world.close());

it('records a pull request once and links it to the task that its branch names', async () => {
  world = await createWorld();
  const { taskId } = await world.bug();
  const pull = { head: 'bug-1-fix', title: 'Fix it', updated: '2026-01-05T09:00:00Z' };
  await world.pull(pull);
  await world.settled();
  expect(await world.records()).toMatchObject([
    { provider: 'github', repoId: '5001', identifier: '1', title: 'Fix it', state: 'open', taskIds: [taskId] },
  ]);
  expect(await world.links(taskId)).toMatchObject([
    { url: 'https://github.com/acme/app/pull/1', externalId: 'worksync:github:github.com:5001:pull:1' },
  ]);
  // Two complete reads at the first start, one record, one link.
  expect((await world.requests()).received).toBe(4);
  const again = async () => {
    await world.restart();
    await world.pull(pull, { id: 'another' });
    await world.settled();
  };
  expect(await world.costOf(again)).toBe(0);
});

/** The life of a pull request, some of it within one second of the provider's clock. */
const EVENTS: readonly PullSetting[] = [
  { title: 'Draft', draft: true, updated: '2026-01-05T08:00:00Z' },
  { title: 'Draft', draft: false, updated: '2026-01-05T08:00:01Z' },
  { title: 'Ready', updated: '2026-01-05T08:00:01Z' },
  { title: 'Ready', labels: ['late'], updated: '2026-01-05T08:00:01Z' },
  { title: 'Ready', labels: ['late'], merged: true, updated: '2026-01-05T08:00:02Z' },
  { title: 'Ready, and renamed when merged', labels: ['late', 'done'], merged: true, updated: '2026-01-05T08:00:02Z' },
];
const FINAL = EVENTS[5]!;

/** GitHub knows every pull request in its final state. @returns its address, and the numbers that were read */
async function openGithub() {
  const fetched: string[] = [];
  const github = createServer((request, response) => {
    const number = /^\/repos\/acme\/app\/pulls\/(\d+)$/.exec(request.url ?? '')?.[1];
    fetched.push(number ?? `unexpected: ${request.url}`);
    response.writeHead(number === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(number === undefined ? {} : pullObject({ ...FINAL, number: Number(number) })));
  });
  onTestFinished(() => void github.close());
  return { apiUrl: await listenLocally(github), fetched };
}

it('ends in the provider’s state with one write after six events in any order [A13]', async () => {
  const { apiUrl, fetched } = await openGithub();
  world = await createWorld({
    quota: { requests: 100_000, burst: 100_000 },
    // The guard would stop so many creations at once.
    config: { guard: { creations: 'off' }, connections: { github: { ...GITHUB, apiUrl, token: 'a-token-for-tests' } } },
  });
  await world.settled();
  world.weather.turn({ before: () => errorAnswer(401, 'unauthorized', 'the test delivers first') });
  const orders = sampleOf(permutations(EVENTS), 24);
  const deliver = async (order: readonly PullSetting[], number: number, place: number) =>
    expect(await world.deliver('pull_request', pullEvent({ ...order[place], number }))).toBe(202);
  const numbered = orders.map((order, index) => ({ order, number: index + 1 }));
  const [oneByOne, together] = [
    numbered.filter((_, index) => index % 2),
    numbered.filter((_, index) => index % 2 === 0),
  ];
  // Half of them event by event, each taken over before the next comes.
  for (const place of EVENTS.keys()) {
    await Promise.all(oneByOne.map(({ order, number }) => deliver(order, number, place)));
    await world.partition().reconcile.drain();
  }
  // The others as fast as they are acknowledged, so that several are taken over together.
  await Promise.all(
    together.map(async ({ order, number }) => {
      for (const place of EVENTS.keys()) await deliver(order, number, place);
    }),
  );
  await world.until(async () => {
    const { deliveries, connections } = await world.partition().status();
    return deliveries.pending === 0 && connections[0]?.fetches === 0;
  });
  let writes = 0;
  world.weather.turn({
    before: ({ method }) => {
      if (method !== 'GET') writes += 1;
      return undefined;
    },
  });
  await world.partition().throttle.resume();
  await world.settled();

  const held = await world.records();
  expect(held).toHaveLength(orders.length);
  const { title, labels } = FINAL;
  for (const record of held) {
    expect(record, `order ${record.identifier}`).toMatchObject({ title, state: 'merged', draft: false });
    expect(record.labels, `order ${record.identifier}`).toEqual([...(labels ?? [])].toSorted());
  }
  expect(writes).toBe(orders.length);
  expect(fetched.filter((number) => number.startsWith('unexpected'))).toEqual([]);
  expect(new Set(fetched).size).toBeGreaterThan(orders.length / 2);
});

function permutations<Element>(elements: readonly Element[]): Element[][] {
  if (elements.length === 0) return [[]];
  return elements.flatMap((first, index) =>
    permutations(elements.filter((_, other) => other !== index)).map((rest) => [first, ...rest]),
  );
}
