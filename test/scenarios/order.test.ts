import { createServer, type Server } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { createWeather, errorAnswer, type Weather } from '../support/fakes/weather.ts';
import { allRecords } from '../support/harness/people.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { isDeep, sampleOf } from '../support/harness/depth.ts';
import { listenLocally } from '../support/harness/listen.ts';
import { pullEvent, pullObject } from '../support/vendors/github-payloads.ts';

type Setting = NonNullable<Parameters<typeof pullEvent>[0]>;

/** The life of a pull request, some of it within one second of the provider's clock. */
const EVENTS: readonly Setting[] = [
  { title: 'Draft', draft: true, updated: '2026-01-05T08:00:00Z' },
  { title: 'Draft', draft: false, updated: '2026-01-05T08:00:01Z' },
  { title: 'Ready', updated: '2026-01-05T08:00:01Z' },
  { title: 'Ready', labels: ['late'], updated: '2026-01-05T08:00:01Z' },
  { title: 'Ready', labels: ['late'], merged: true, updated: '2026-01-05T08:00:02Z' },
  { title: 'Ready, and renamed when merged', labels: ['late', 'done'], merged: true, updated: '2026-01-05T08:00:02Z' },
];
const FINAL = EVENTS[5]!;

let world: World;
let github: Server;
afterEach(async () => {
  await world.close();
  github.close();
});

/** Stands in for GitHub's API: knows every pull request in its final state. */
async function openGithub(): Promise<{ apiUrl: string; fetched: string[] }> {
  const fetched: string[] = [];
  github = createServer((request, response) => {
    const number = /^\/repos\/acme\/app\/pulls\/(\d+)$/.exec(request.url ?? '')?.[1];
    fetched.push(number ?? `unexpected: ${request.url}`);
    response.writeHead(number === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(number === undefined ? {} : pullObject({ ...FINAL, number: Number(number) })));
  });
  return { apiUrl: await listenLocally(github), fetched };
}

/** A world whose quota is lifted as far as it may be: the order is to be tested, not the quota. */
async function openWorld(weather: Weather): Promise<{ fetched: string[] }> {
  const { apiUrl, fetched } = await openGithub();
  world = await createWorld({
    faults: weather,
    quota: { requests: 100_000, burst: 100_000 },
    config: {
      // All of them are created together, which is what the guard is there to stop.
      guard: { creations: 'off' },
      connections: {
        github: {
          connector: 'github',
          apiUrl,
          token: 'a-token-for-tests',
          repositories: ['acme/app'],
          webhookSecrets: 'a webhook secret for tests only',
          poll: 'off',
        },
      },
    },
  });
  await world.settled();
  return { fetched };
}

function permutations<Element>(elements: readonly Element[]): Element[][] {
  if (elements.length === 0) return [[]];
  return elements.flatMap((first, index) =>
    permutations(elements.filter((_, other) => other !== index)).map((rest) => [first, ...rest]),
  );
}

const records = () => allRecords(world.people);

describe('six events of one pull request', () => {
  it('in every order, while nothing is sent, end in the provider’s state with one write each [A13]', async () => {
    const weather = createWeather(() => 0);
    const { fetched } = await openWorld(weather);
    weather.turn({ before: () => errorAnswer(401, 'unauthorized', 'the test delivers first') });
    const orders = sampleOf(permutations(EVENTS), 12);
    expect(orders).toHaveLength(isDeep ? 720 : 60);
    const deliver = async (order: readonly Setting[], number: number, place: number) =>
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
    weather.turn({
      before: ({ method }) => {
        if (method !== 'GET') writes += 1;
        return undefined;
      },
    });
    await world.partition().throttle.resume();
    await world.settled();

    const held = await records();
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
});

describe('one delivery', () => {
  it('a hundred times, at once and one after another, before and after a restart, has one effect', async () => {
    await openWorld(createWeather(() => 0));
    const before = (await world.requests()).received;
    const deliver = () => world.deliver('pull_request', pullEvent(FINAL), { id: 'the-same' });
    const answers = await Promise.all(Array.from({ length: 50 }, deliver));
    await world.settled();
    for (let copy = 0; copy < 25; copy++) answers.push(await deliver());
    await world.restart();
    for (let copy = 0; copy < 25; copy++) answers.push(await deliver());
    await world.settled();
    expect(new Set(answers)).toEqual(new Set([202]));
    expect(answers).toHaveLength(100);
    expect(await records()).toHaveLength(1);
    expect((await world.requests()).received - before).toBe(1);
    expect(
      (await world.partition().status()).deliveries.latest.filter(({ source }) => source === 'webhook'),
    ).toHaveLength(1);
  });
});
