import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Translation } from '../../src/connectors/connector.ts';
import type { Delivery } from '../../src/model/delivery.ts';
import { SyncError } from '../../src/model/errors.ts';
import type { Item, ItemReference } from '../../src/model/item.ts';
import type { HttpClient, HttpRequest } from '../../src/platform/http/http-client.ts';
import { patternText } from '../../src/platform/lib/pattern.ts';
import { MEBIBYTE } from '../../src/platform/lib/quantities.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import type { PendingDelivery } from '../../src/store/deliveries/inbox.ts';
import { createLinkRules } from '../../src/sync/reconcile/link-rules/link-rules.ts';
import { type TranslationContext, translateAll } from '../../src/sync/reconcile/translate-deliveries.ts';
import { cpuTimeOf } from '../support/cost/cpu-time.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import {
  deliveryOf,
  outcomeOf,
  readPlaces,
  type Sample,
  VICTIMS,
  type Victim,
} from '../support/faults/fuzz/deliveries.ts';
import { HOSTILE_TEXTS } from '../support/faults/fuzz/hostile.ts';
import { bytesOf, damage, mutated, mutations } from '../support/faults/fuzz/mutations.ts';
import { faultsOf } from '../support/faults/fuzz/sound-items.ts';
import { fuzzed, isDeep, sampleOf } from '../support/harness/depth.ts';
import { undocumented } from '../support/vendors/vendor-requests/index.ts';

/**
 * Whatever a vendor sends, or somebody who knows the secret of its webhook: it is taken as sound items of what the connection
 * follows, or put into quarantine, in the time that reading it may take.
 */

const { signal } = new AbortController();
const rules = createLinkRules({
  trailers: ['Task'],
  links: [{ pattern: patternText('bug_([0-9]+)'), task: 'BUG-$1' }],
  addresses: ['https://tasks.example/w/acme'],
  grammars: VICTIMS.map(({ id, connector: { publicHost, grammar } }) => ({ connector: id, host: publicHost, grammar })),
});

/** Milliseconds of this thread, at most, for so many bytes: a third of what a body in a thread of its own may take. */
function budgetOf({ body }: Pick<Delivery, 'body'>): number {
  return 1_000 + (body.length * 1_000) / MEBIBYTE;
}

/** As reconcile does, on the main thread. */
async function translated(victim: Victim, given: Pick<Delivery, 'source' | 'event' | 'body'>) {
  const { id: connection, connector, options } = victim;
  const source = {
    ...{ connection, vendor: connector, records: true },
    translate: (delivery: Delivery) => connector.translate(delivery, options),
    reference: (item: Item) => connector.reference(item),
  };
  const translating = {
    sources: new Map([[connection, source]]),
    isSuspected: () => false,
  } as unknown as TranslationContext;
  const stored = { body: Buffer.from(given.body), unpacked_length: null };
  const delivery: PendingDelivery = { ...given, id: 1, connection, receivedAt: 0, attempts: 0, stored, bytes: 0 };
  const [result] = await translateAll([delivery], translating);
  return result;
}

/** Where worksync would read this: the requests, none of which is answered. */
async function requestsFor({ connector, options }: Victim, reference: ItemReference): Promise<readonly HttpRequest[]> {
  const asked: HttpRequest[] = [];
  const http: HttpClient = {
    async request(request) {
      asked.push(request);
      throw new SyncError('unreachable', 'nobody answers');
    },
    close: async () => undefined,
  };
  const connection = connector.connect(options, { http, clock: createTravellingClock(), logger: silentLogger });
  await connection.fetch(reference, signal).catch(() => undefined);
  return asked;
}

/** The part of an address that no id may change. */
function leavesHome({ profile }: Victim, { url }: HttpRequest): boolean {
  const { origin, pathname, username, password, hash } = new URL(url);
  const isPlain = url.startsWith(profile.origin) && !/%2e|%2f|%5c|\\|\/\.{1,2}(?:\/|$)/i.test(pathname);
  return origin !== profile.origin || !isPlain || username + password + hash !== '';
}

const JUDGED = /\.(?:judged|hook)$/;

/** Whether worksync decides by this delivery alone what is followed: it asked for all others itself. */
function isJudged({ source, event }: Pick<Delivery, 'source' | 'event'>): boolean {
  return source === 'webhook' || JUDGED.test(event);
}

/** Systems of their own have no ids beside the names of their projects. */
function isHome({ id, home }: Victim, container: string, name = container): boolean {
  return id === 'generic' ? /^web/i.test(name) || /^web/i.test(container) : container === home;
}

/** Returns the faults of a translated delivery. */
async function faultsIn(victim: Victim, delivery: Pick<Delivery, 'source' | 'event'>, translation: Translation) {
  const items = translation.outcome === 'items' ? translation.items : [];
  const told = (translation.outcome === 'references' ? translation.partialItems : undefined) ?? [];
  const references = translation.outcome === 'ignored' ? [] : (translation.references ?? []);
  const faults: string[] = [];
  for (const item of [...items, ...told]) {
    faults.push(...faultsOf(victim, item).map((fault) => `${item.key} ${fault}`));
    const [container, name] =
      item.kind === 'pull_request' ? [item.repoId, item.repoName] : [item.containerId, item.containerName];
    // A deleted item lacks the name of its project, by which a self-hosted system may be followed.
    const isNameless = victim.id === 'generic' && item.gone === true;
    if (isJudged(delivery) && !isNameless && !isHome(victim, container, name))
      faults.push(`${item.key} of ${container} is not followed`);
    const reading = { name: victim.id, grammar: victim.connector.grammar };
    if (rules.mentionsOf(item, reading).length > 500) faults.push(`${item.key} names too much`);
  }
  for (const { locator, key } of references) {
    const container = locator['repoId'] ?? locator['projectId'] ?? locator['teamId'];
    const isTrusted = locator['isFollowed'] === undefined && container !== undefined;
    if (isJudged(delivery) && isTrusted && !isHome(victim, container))
      faults.push(`${key} of ${container} would be fetched`);
  }
  for (const reference of [...references, ...items.map((item) => victim.connector.reference(item))]) {
    for (const request of await requestsFor(victim, reference)) {
      if (leavesHome(victim, request)) faults.push(`${request.url} leaves ${victim.profile.origin}`);
      const problem = undocumented(request);
      if (problem !== undefined) faults.push(problem);
    }
  }
  return faults;
}

/** To make one takes longer than to draw from it. */
const ANY_TEXT = fc.string({ unit: 'binary' });

const EVENTS = ['', 'ping', 'push', 'webhook', '__proto__', 'constructor', 'Push Hook', 'repo:push'];

describe.each(VICTIMS)('$id', (victim) => {
  // The places that are read are not determined for the payloads of GitHub's library: that takes a second each.
  const captured = victim.samples.filter(({ isPublished }) => isPublished !== true);
  const isItem = (sample: Sample) => outcomeOf(victim, deliveryOf(sample)).includes('"outcome":"items"');
  const looked = isDeep ? captured : sampleOf(captured.filter(isItem), 12);
  const places = new Map(looked.map((sample) => [sample, readPlaces(victim, sample)] as const));
  const events = [...new Set(victim.samples.map(({ event }) => event))];

  it('takes whatever comes as sound items of what is followed, or into quarantine', async () => {
    const outcomes = new Set<string>();
    let hardest = 0;
    const given = fc.record({
      sample: fc.constantFrom(...victim.samples),
      changes: mutations,
      atReadPlaces: fc.integer({ min: 0, max: 3 }).map((of) => of > 0),
      harm: damage,
      event: fc.option(fc.constantFrom(...events, ...EVENTS), { freq: 12, nil: undefined }),
    });
    await fc.assert(
      fc.asyncProperty(given, async ({ sample, changes, atReadPlaces, harm, event = sample.event }) => {
        const { read } = places.get(sample) ?? { read: [] };
        const payload = mutated(sample.payload, changes, atReadPlaces && read.length > 0 ? read : undefined);
        const delivery = { source: sample.source, event, body: bytesOf(payload, harm) };
        let result: ReturnType<typeof translated> | undefined;
        const cpu = cpuTimeOf(() => {
          result = translated(victim, delivery);
        });
        hardest = Math.max(hardest, cpu);
        expect(cpu).toBeLessThan(budgetOf(delivery));
        const { translation, failure } = (await result) ?? {};
        expect(failure?.code ?? 'delivery_malformed').toBe('delivery_malformed');
        outcomes.add(failure?.code ?? translation?.outcome ?? '');
        if (translation) expect(await faultsIn(victim, delivery, translation)).toEqual([]);
        expect([({} as { polluted?: unknown }).polluted, Object.keys(Object.prototype)]).toEqual([undefined, []]);
      }),
      { numRuns: fuzzed(10_000) },
    );
    // Each way was taken, so that none of them went unseen.
    const ways = ['delivery_malformed', 'ignored', 'items', ...(victim.id === 'generic' ? [] : ['references'])];
    expect([...outcomes].toSorted()).toEqual(ways);
  });

  it('makes the same of a payload whatever stands where nothing is read', () => {
    // Only payloads that become an item: in others, one wrong part hides that another is read.
    const cases = [...places]
      .map(([sample, { unread }]) => ({ sample, unread, honest: outcomeOf(victim, deliveryOf(sample)) }))
      .filter(({ honest, unread }) => honest.includes('"outcome":"items"') && unread.length > 0);
    const value = fc.oneof(fc.constantFrom(...HOSTILE_TEXTS), ANY_TEXT, fc.jsonValue({ maxDepth: 3 }));
    // A payload with a key of a prototype goes into quarantine wherever that stands.
    const json = value.map((each) => JSON.stringify(each)).filter((text) => !/__proto__|constructor/.test(text));
    const change = fc.record({ does: fc.constant('replace' as const), where: fc.nat(), json });
    fc.assert(
      fc.property(
        fc.constantFrom(...cases),
        fc.array(change, { minLength: 1, maxLength: 5 }),
        ({ sample, honest, unread }, changes) => {
          const payload = mutated(sample.payload, changes, unread);
          expect(outcomeOf(victim, deliveryOf({ ...sample, payload }))).toBe(honest);
        },
      ),
      { numRuns: fuzzed(2_000) },
    );
    expect(cases.length).toBeGreaterThan(0);
  });
});
