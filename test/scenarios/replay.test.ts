import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Connector } from '../../src/connectors/connector.ts';
import { connectors } from '../../src/connectors/registry.ts';
import type { Partition } from '../../src/daemon/partition.ts';
import type { HttpClient } from '../../src/platform/http/http-client.ts';
import { PROFILES } from '../contracts/connectors/index.ts';
import { followedIn } from '../contracts/connectors/profile.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';

/**
 * A delivery that is validly signed does nothing where it does not belong, and nothing a second time: for every vendor, at the whole
 * daemon. What a vendor does not name in its samples, `test/laws` draws.
 */
const HOUR = 3_600_000;
/** Hours that a delivery is remembered, and that its body is kept: less than anybody would configure. */
const KEPT = 3;
const BODIES = 1;

/** A scope in which nothing of the samples lies. */
const elsewhereOf = ({ options }: Profile) => {
  const { name, entries } = followedIn(options);
  return { [name]: entries.map((entry) => `x${entry}`) };
};

const secretsOf = (id: string) => {
  const { secrets } = PROFILES.find((profile) => profile.id === id)!.webhook;
  return secrets ?? ['the-present-secret', 'the-secret-after-it', 'retired-secret'];
};

/** A connection of each vendor, named as it is; with the own secret of its vendor, or another one. */
function connectionsWith(given: { readonly secret?: 'other'; readonly isElsewhere?: true; readonly suffix?: string }) {
  return Object.fromEntries(
    PROFILES.map((profile) => {
      const { id, options } = profile;
      const [own, other] = secretsOf(id);
      const scope = given.isElsewhere ? elsewhereOf(profile) : {};
      const common = { connector: id, webhookSecrets: given.secret === 'other' ? other : own, poll: 'off' };
      return [id + (given.suffix ?? ''), { ...common, ...options, ...scope }];
    }),
  );
}

const RULES = { rules: { triage: [{ create: 'bug', since: 'always' }] } };
const OTHERS = {
  'other-secret': { ...RULES, connections: connectionsWith({ secret: 'other' }) },
  'other-scope': { ...RULES, connections: connectionsWith({ isElsewhere: true }) },
};

/** Shortcut wants to hear 200. */
const TAKEN: readonly number[] = [200, 202];

type Profile = (typeof PROFILES)[number];

interface Sent {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

let world: World;
/** How often each vendor was asked for something, by its connector. */
const asked = new Map<string, number>();

/** Vendors know of nothing: what is asked of one shows that a delivery was believed. */
function withoutVendors(own: HttpClient): HttpClient {
  return {
    async request(request) {
      if (!connectors.some(({ id }) => id === request.target)) return own.request(request);
      asked.set(request.target, (asked.get(request.target) ?? 0) + 1);
      return { status: 404, headers: {}, body: Buffer.from('{}') };
    },
    close: () => own.close(),
  };
}

beforeAll(async () => {
  world = await createWorld({
    http: withoutVendors,
    config: {
      ...RULES,
      connections: { ...connectionsWith({}), ...connectionsWith({ isElsewhere: true, suffix: '-elsewhere' }) },
      retention: { bodies: `${BODIES}h`, deliveries: `${KEPT}h` },
    },
  });
  for (const [name, content] of Object.entries(OTHERS)) world.configure(name, content);
  await world.reload();
  await world.settled();
});
afterAll(() => world.close());

async function post(workspace: string, connection: string, { headers, body }: Sent): Promise<number> {
  const url = `${world.daemon().address}/webhooks/${workspace}/${connection}`;
  const type = { 'content-type': 'application/json' };
  const answer = await fetch(url, { method: 'POST', headers: { ...type, ...headers }, body });
  await answer.arrayBuffer();
  return answer.status;
}

const opened = (workspace: string) => world.workspaces().find(workspace) as Partition;

const WORKSPACES = ['test', ...Object.keys(OTHERS)];

/** Until all deliveries are taken over, and all changes sent. Vendors that know of nothing are asked again for hours. */
const settled = () =>
  world.until(async () => {
    const all = await Promise.all(WORKSPACES.map((name) => opened(name).status()));
    const waiting = all.map(
      ({
        deliveries,
        changes: {
          byState: { pending, sending, unknown },
        },
      }) => {
        return deliveries.pending + pending + sending + unknown;
      },
    );
    const inFlight = WORKSPACES.map((name) => opened(name).outbox.inFlight);
    return [...waiting, ...inFlight].every((count) => count === 0);
  });

/** All that a delivery may do: what worksync holds, what it means to send and to ask for, and what stands in the workspace. */
async function effects() {
  const held = await Promise.all(WORKSPACES.map(async (name) => [name, await heldBy(opened(name))] as const));
  const [tasks, records] = [await world.tasks(), await world.records()];
  return { ...Object.fromEntries(held), tasks, records };
}

async function heldBy({ store: { query } }: Partition) {
  const items = await query
    .selectFrom('items')
    .select(['key', 'hash', 'gone', 'finished', 'fields'])
    .orderBy('key')
    .execute();
  const entities = await query
    .selectFrom('entities')
    .select(['entity', 'desired', 'known', 'remote_id'])
    .orderBy('entity')
    .execute();
  return { items, entities };
}

let made = 0;

/** The sample events of a vendor, signed with the own secret of its connection, about what this follows. */
async function deliveriesOf({ id, options, containerId }: Profile): Promise<readonly Sent[]> {
  const connector = connectors.find((each) => each.id === id) as Connector<unknown>;
  const parsed = connector.options.parse(options);
  const names = connector.namesIn?.(parsed) ?? [];
  const bindings = names.map((called) => ({ entry: called.toLowerCase(), id: containerId ?? called, called }));
  const samples = await connector.samples?.();
  if (!samples) throw new Error(`${id} has no samples`);
  return Object.values(samples).map((sample, index) => {
    const number = String(++made).padStart(12, '0');
    const moment = { at: world.clock.now() + index, id: `0b9e0a5c-6a0e-4d55-9d0e-${number}`, bindings };
    const body = JSON.stringify(sample.payload(parsed, moment));
    return { headers: { ...sample.headers, ...connector.sign?.(Buffer.from(body), secretsOf(id)[0], moment) }, body };
  });
}

describe.each(PROFILES)('a signed delivery of $id', (profile) => {
  const { id } = profile;

  it('does nothing in other workspaces and at other connections, and something where it belongs [A3]', async () => {
    const [first] = await deliveriesOf(profile);
    await settled();
    const before = await effects();
    expect(await post('other-secret', id, first!)).toBe(401);
    // A connection with the same secret by mistake accepts it, and follows nothing that it is about.
    expect(TAKEN).toContain(await post('other-scope', id, first!));
    expect(TAKEN).toContain(await post('test', `${id}-elsewhere`, first!));
    await settled();
    // Where it does not say what it belongs to, the vendor is asked; what follows of that, the contract of all connectors says.
    expect(await effects()).toEqual(before);
    const count = asked.get(id);
    expect(TAKEN).toContain(await post('test', id, first!));
    await world.until(async () => asked.get(id) !== count || !isDeepStrictEqual(await effects(), before));
  });

  it('does nothing at a connection of any other vendor [A3]', async () => {
    const [first] = await deliveriesOf(profile);
    await settled();
    const before = await effects();
    const others = PROFILES.filter((each) => each.id !== id).map((each) => each.id);
    const answers = await Promise.all(others.map(async (other) => [other, await post('test', other, first!)]));
    expect(answers.filter(([, status]) => status !== 401 && status !== 400)).toEqual([]);
    await settled();
    expect(await effects()).toEqual(before);
  });
});

describe('a signed delivery that comes again', () => {
  it.each([
    ['at once', 0],
    ['when its body is gone', (BODIES + 1) * HOUR],
    ['when it is forgotten', (KEPT + 1) * HOUR],
  ])('%s does nothing, whoever sent it [A3]', async (_when, pause) => {
    const sent = new Map(await Promise.all(PROFILES.map(async (each) => [each.id, await deliveriesOf(each)] as const)));
    const postAll = async (index: 0 | 1) => {
      for (const [id, deliveries] of sent) answers.push([id, await post('test', id, deliveries[index]!)]);
      await settled();
    };
    const answers: (readonly [string, number])[] = [];
    // The first one is outdated when it comes again.
    await postAll(0);
    await postAll(1);
    expect(answers.filter(([, status]) => !TAKEN.includes(status))).toEqual([]);
    const before = await effects();
    await world.clock.advance(pause);
    await settled();
    // Retention runs for some turns after its hour has come.
    await world.until(() => forgotten(pause));
    await postAll(0);
    // Signatures that tell when they were made are none any more; of others the vendor may be asked how things are now.
    const late = answers.slice(2 * sent.size).filter(([, status]) => !TAKEN.includes(status));
    expect(late).toEqual(pause === 0 ? [] : ['generic', 'gitlab'].map((id) => [id, 401]));
    expect(await effects()).toEqual(before);
  });
});

/** Whether earlier webhooks are remembered as long as they should be, and no longer. */
async function forgotten(pause: number): Promise<boolean> {
  const { query } = opened('test').store;
  const rows = await query.selectFrom('inbox').select('id').where('source', '=', 'webhook').execute();
  return pause > KEPT * HOUR ? rows.length === 0 : rows.length > 0;
}
