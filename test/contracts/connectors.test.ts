import { isUtf8 } from 'node:buffer';
import { readdirSync, readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Connection, Connector, PollPage, PollPosition } from '../../src/connectors/connector.ts';
import { LONGEST_DICTATED_WAIT } from '../../src/connectors/kit/refusal.ts';
import { TRIAL } from '../../src/connectors/kit/sample.ts';
import { connectors } from '../../src/connectors/registry.ts';
import { SyncError } from '../../src/model/errors.ts';
import { GIT_PROVIDER_IDS } from '../../src/model/git-providers.ts';
import type { Grammar, Item, PullRequest, WorkItem } from '../../src/model/item.ts';
import { boundNames } from '../../src/model/names.ts';
import { createHttpClient, type HttpClient } from '../../src/platform/http/http-client.ts';
import { silentLogger } from '../../src/platform/lib/telemetry.ts';
import type { ReconcileConnection, WorkerTranslator } from '../../src/sync/reconcile/context.ts';
import { createLinkRules } from '../../src/sync/reconcile/link-rules/link-rules.ts';
import { namesOfItem } from '../../src/sync/reconcile/link-rules/lookup-names.ts';
import { intentOf } from '../../src/sync/reconcile/link-rules/scan.ts';
import { type Translated, translateAll } from '../../src/sync/reconcile/translate-deliveries.ts';
import { createInlineConverter, parseInWorker } from '../../src/sync/worker/converter.ts';
import { createTravellingClock } from '../support/fakes/travelling-clock.ts';
import { drawn, sampleOf } from '../support/harness/depth.ts';
import { openTestStore } from '../support/harness/intake.ts';
import { answerByNock, nock } from '../support/harness/nock.ts';
import { TRACKER } from '../support/rows/batches.ts';
import { pull, workItem } from '../support/rows/items.ts';
import { modelProviders } from '../support/vendors/model-providers/index.ts';
import { DESCRIPTIONS, documentedOnly } from '../support/vendors/vendor-requests/index.ts';
import { PROFILES } from './connectors/index.ts';
import {
  type ConnectorProfile,
  type Exchange,
  type FixtureCase,
  followedIn,
  textOf,
  waits,
} from './connectors/profile.ts';

const FOLDERS = new URL('../../src/connectors/', import.meta.url);
const { signal } = new AbortController();
const http = documentedOnly(createHttpClient());

/** The meaning of each status, unless the vendor deviates. */
const STATUSES = {
  400: 'refused',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  409: 'conflict',
  410: 'not_found',
  422: 'refused',
  500: 'server_failed',
  502: 'server_failed',
  503: 'server_failed',
  504: 'server_failed',
};

/** How every vendor may say that a limit is reached. */
const LIMITS: ConnectorProfile['limits'] = {
  '429 with retry-after': waits(90_000, { 'retry-after': '90' }),
  '429 with nothing said': waits(60_000),
};

/** A header that dictates a wait, with one of decades, in the form that the vendor gives it. */
function inYears(name: string, value: string): string {
  if (name === 'retry-after') return '999999999';
  if (!name.endsWith('reset')) return value;
  const end = Date.UTC(2100, 0);
  return /^\d{13}$/.test(value)
    ? String(end)
    : /^\d/.test(value) && value.includes('T')
      ? new Date(end).toISOString()
      : String(end / 1_000);
}

function endingOf(item: Item) {
  const { state, isDropped, closedAt } = item as WorkItem;
  return { state, isDropped, closedAt };
}

/** To make one takes longer than to draw from it a hundred times. */
const ANY_TEXT = fc.string({ unit: 'binary', maxLength: 3 });

const NO_ERROR = 'not a SyncError: undefined';

/** Every request that no exchange was written for. */
const unexpected: string[] = [];
const note = (request: { method?: string; path?: string }) => unexpected.push(`${request.method} ${request.path}`);

answerByNock();
beforeAll(() => void nock.emitter.on('no match', note));
afterEach(() => {
  const unused = nock.pendingMocks();
  const surprises = unexpected.splice(0);
  if (unused.length + surprises.length > 0) throw new Error(JSON.stringify({ unused, surprises }));
});
afterAll(async () => {
  nock.emitter.off('no match', note);
  await http.close();
});

/** A client that has each answer read aside where the request says what it needs; notes which were. */
function readAside(): { readonly read: boolean[]; readonly noting: HttpClient } {
  const read: boolean[] = [];
  const aside = parseInWorker(http, createInlineConverter(connectors), 0);
  const noting: HttpClient = {
    ...aside,
    async request(request) {
      const answer = await aside.request(request);
      read.push(answer.content !== undefined);
      return answer;
    },
  };
  return { read, noting };
}

describe('the registry', () => {
  const folders = readdirSync(FOLDERS, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && entry.name !== 'kit',
  );

  it('has one line for each folder; a profile, a model and a description of requests for each line', () => {
    const ids = connectors.map(({ id }) => id);
    expect(ids.toSorted()).toEqual(folders.map(({ name }) => name).toSorted());
    expect(PROFILES.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    expect([...new Set(modelProviders.map(({ id }) => id))].toSorted()).toEqual(ids.toSorted());
    expect(Object.keys(DESCRIPTIONS).toSorted()).toEqual(ids.filter((id) => id !== 'generic').toSorted());
  });

  it('has a connector for each row of the git providers, and no other with pull requests', () => {
    const ids = connectors.filter(({ capabilities }) => capabilities.pullRequests).map(({ id }) => id);
    expect(ids.toSorted()).toEqual(GIT_PROVIDER_IDS.toSorted());
  });
});

describe.each(PROFILES)('$id', (profile) => {
  async function translatedPage({ event }: FixtureCase, page: unknown): Promise<Translated> {
    const { query } = await openTestStore();
    const converter = createInlineConverter(connectors);
    const common = { connector: profile.id, options, event };
    const worker: WorkerTranslator = {
      translate: async ({ source, stored }) =>
        (await converter.translate({ ...common, source, body: stored })).translation,
      elements: (body) => converter.parts({ body }),
    };
    const translate: ReconcileConnection['translate'] = (delivery) => connector.translate(delivery, options);
    const source = { ...TRACKER, translate, worker, connection: 'main' };
    const body = Buffer.from(JSON.stringify(page));
    const stored = { body, unpacked_length: null };
    const delivery = { id: 1, connection: 'main', source: 'poll', event, body, receivedAt: 1 } as const;
    const pending = { ...delivery, attempts: 0, stored, bytes: body.length };
    const sources = new Map([['main', source]]);
    return (await translateAll([pending], { query, sources, isSuspected: () => false }))[0] as Translated;
  }

  const connector = connectors.find(({ id }) => id === profile.id) as Connector<unknown>;
  const options = connector.options.parse(profile.options);
  const clock = createTravellingClock();
  const connect = (): Connection => connector.connect(options, { http, clock, logger: silentLogger });

  const script = (exchanges: readonly Exchange[], header?: [string, string]) => {
    for (const exchange of exchanges) {
      const { method, path, sent, query, status, headers } = exchange;
      const scope = nock(profile.origin, header ? { reqheaders: { [header[0]]: header[1] } } : {});
      scope
        .intercept(path, method ?? 'GET', sent && ((body: unknown) => holds(body, sent)))
        .query(query ?? {})
        .reply(status ?? 200, textOf(exchange), headers);
    }
  };
  const read = ({ file }: FixtureCase) => readFileSync(new URL(`${profile.id}/fixtures/${file}.json`, FOLDERS));
  const codeOf = async (work: Promise<unknown>): Promise<string> => {
    const thrown: unknown = await work.then(
      () => undefined,
      (error: unknown) => error,
    );
    return thrown instanceof SyncError ? thrown.code : `not a SyncError: ${String(thrown)}`;
  };

  const limits = Object.entries({ ...LIMITS, ...profile.limits });

  describe('its folder', () => {
    it('uses every fixture', () => {
      const files = readdirSync(new URL(`${profile.id}/fixtures/`, FOLDERS)).map((name) => name.replace('.json', ''));
      expect(files.toSorted()).toEqual(profile.fixtures.map(({ file }) => file).toSorted());
    });
  });

  describe('options', () => {
    it('refuse a key that is not known', () => {
      expect(connector.options.safeParse({ ...profile.options, surprise: 1 }).success).toBe(false);
    });

    it('describe every key, for the reference page', () => {
      const described = z.toJSONSchema(connector.options, { io: 'input', target: 'draft-2020-12' });
      const plain = Object.entries(described.properties ?? {}).filter(
        ([, value]) => !(value as { description?: string }).description?.endsWith('.'),
      );
      expect(plain).toEqual([]);
    });
  });

  describe('verify', () => {
    const body = Buffer.from('{"zen":"Keep it logically awesome."}');
    const {
      sign,
      vector,
      forgeries,
      coversBody = true,
      required,
      signatureHeader,
      secrets: own,
      sentAt,
    } = profile.webhook;
    const [present, upcoming, retired] = own ?? ['the-present-secret', 'the-secret-after-it', 'retired-secret'];
    const verify = (headers: object, given: Buffer = body, secrets: readonly string[] = [present]) =>
      connector.verify({ headers: headers as Record<string, string>, body: given }, secrets, sentAt ?? clock.now());

    it("accepts a vector that is the vendor's own", async () => {
      const verified = await verify(vector.headers, Buffer.from(vector.body), [vector.secret]);
      expect(verified.event).not.toBe('');
      expect(verified.deliveryId !== undefined).toBe(connector.capabilities.namesDeliveries ?? false);
    });

    it('accepts either of two live secrets, and no third', async () => {
      for (const secret of [present, upcoming])
        await expect(verify(sign(body, secret), body, [present, upcoming])).resolves.toBeDefined();
      expect(await codeOf(verify(sign(body, retired), body, [present, upcoming]))).toBe('signature_mismatch');
    });

    it('refuses when no secret is configured, or an empty one', async () => {
      for (const secrets of [[], [''], [present, '']])
        expect(await codeOf(verify(sign(body, present), body, secrets))).toBe('signature_missing');
    });

    it('refuses a request without signature', async () => {
      const headers = { ...sign(body, present), [signatureHeader]: undefined };
      expect(await codeOf(verify(headers))).toBe('signature_missing');
      expect(await codeOf(verify({ ...headers, [signatureHeader]: '' }))).toBe('signature_mismatch');
    });

    it('refuses a repeated header, also when one of the values is right [A1]', async () => {
      const good = sign(body, present);
      const value = good[signatureHeader] as string;
      for (const repeated of [[value], [value, value], [], `${value}, ${value}`])
        expect(await codeOf(verify({ ...good, [signatureHeader]: repeated }))).toBe('signature_mismatch');
    });

    it.each(Object.entries(OTHERWISE))('refuses a right signature %s [A1]', async (_, spell) => {
      const good = sign(body, present);
      const right = good[signatureHeader] as string;
      const made = spell(right);
      // A password may be written in base64 with or without its padding.
      if (!coversBody && isSamePassword(made, right)) return;
      expect(made).not.toBe(right);
      expect(await codeOf(verify({ ...good, [signatureHeader]: made }))).toMatch(/^signature_(missing|mismatch)$/);
    });

    it('refuses a right signature in the header of any other vendor [A1]', async () => {
      const { [signatureHeader]: right, ...others } = sign(body, present);
      const headers = new Set([
        ...PROFILES.map(({ webhook }) => webhook.signatureHeader),
        'x-hub-signature',
        'signature',
      ]);
      headers.delete(signatureHeader);
      for (const name of headers)
        expect([name, await codeOf(verify({ ...others, [name]: right }))]).toEqual([
          name,
          expect.stringMatching(/^signature_(missing|mismatch)$/),
        ]);
    });

    it.each(Object.entries(forgeries(body, present)))('refuses %s', async (wrong, headers) => {
      const code = wrong.includes('six minutes') ? /^signature_expired$/ : /^signature_(missing|mismatch)$/;
      expect(await codeOf(verify(headers))).toMatch(code);
    });

    it('refuses bytes that differ, are no text, or are none at all', async () => {
      const good = sign(body, present);
      const longer = verify(good, Buffer.concat([body, Buffer.from(' ')]));
      expect(await codeOf(longer)).toBe(coversBody ? 'signature_mismatch' : NO_ERROR);
      const bytes = Buffer.from([0x7b, 0xff, 0xfe, 0x7d]);
      expect(await codeOf(verify(sign(bytes, present), bytes))).toBe('signature_mismatch');
      expect(await codeOf(verify(sign(Buffer.alloc(0), present), Buffer.alloc(0)))).toBe('signature_mismatch');
    });

    it.each(required)('takes no signed request without a usable %s', async (name) => {
      const good = sign(body, present);
      for (const value of [undefined, '', 'a b', '../x', 'x'.repeat(101), ['a', 'b']])
        expect(await codeOf(verify({ ...good, [name]: value }))).toBe('delivery_malformed');
    });

    it('accepts nothing that is made up [A1]', async () => {
      const digest = fc.stringMatching(/^[0-9a-f]{64}$/).map((hex) => `sha256=${hex}`);
      const value = fc.oneof(digest, fc.string(), fc.array(fc.string(), { maxLength: 3 }), fc.constant(undefined));
      const good = sign(body, present);
      await fc.assert(
        fc.asyncProperty(value, async (made) => {
          const code = await codeOf(verify({ ...good, [signatureHeader]: made }));
          expect(code).toMatch(/^signature_(missing|mismatch)$/);
        }),
        { numRuns: drawn(100_000, 400) },
      );
    });

    it('accepts no spelling of a right signature but that one', async () => {
      const good = sign(body, present);
      const right = good[signatureHeader] as string;
      const edit = fc.record({ at: fc.nat(right.length), cut: fc.nat(2), put: ANY_TEXT });
      const edited = fc.array(edit, { minLength: 1, maxLength: 3 }).map((edits) => {
        return edits.reduce((made, { at, cut, put }) => made.slice(0, at) + put + made.slice(at + cut), right);
      });
      const flipped = fc.nat(right.length - 1).chain((at) => {
        const sign = fc.nat(SPELLINGS.length - 1).map((index) => SPELLINGS.charAt(index));
        return sign.map((put) => right.slice(0, at) + put + right.slice(at + 1));
      });
      const other = fc.constantFrom(
        ...Object.keys(good).concat('x-hub-signature-256', 'x-gitlab-token', 'authorization'),
      );
      await fc.assert(
        fc.asyncProperty(fc.oneof(edited, flipped), other, async (made, beside) => {
          // The user of HTTP Basic authentication is not looked at, and one text has several forms in base64.
          fc.pre(made !== right && !isSamePassword(made, right));
          const extra = beside === signatureHeader || required.includes(beside) ? {} : { [beside]: right };
          const decided = Object.hasOwn(extra, 'authorization') || beside in good ? {} : extra;
          const code = await codeOf(verify({ ...good, ...decided, [signatureHeader]: made }));
          expect(code).toMatch(/^signature_(missing|mismatch)$/);
        }),
        { numRuns: drawn(100_000, 400) },
      );
    });

    it('accepts no change of what is signed, and no other secret [A1]', async () => {
      await fc.assert(
        fc.asyncProperty(fc.nat(body.length - 1), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
          const changed = Buffer.from(body);
          changed[at] = (changed[at] as number) ^ flip;
          const isRefused = coversBody || !isUtf8(changed);
          expect(await codeOf(verify(sign(body, present), changed))).toBe(isRefused ? 'signature_mismatch' : NO_ERROR);
        }),
      );
      expect(await codeOf(verify(sign(body, retired)))).toBe('signature_mismatch');
    });
  });

  describe('translate', () => {
    it.each(profile.fixtures)('$file', (fixture) => {
      const delivery = { ...fixture, body: read(fixture) };
      const translation = connector.translate(delivery, options);
      expect(translation.outcome).toBe(fixture.outcome);
      expect((translation as { reason?: string }).reason).toBe(fixture.reason);
      // Translation is deterministic.
      expect(connector.translate(delivery, options)).toEqual(translation);
      if (translation.outcome !== 'items') return;
      if (fixture.endings) expect(translation.items.map(endingOf)).toEqual(fixture.endings);
      const [first] = translation.items;
      for (const [name, value] of Object.entries(fixture.facts ?? {}))
        expect({ [name]: first?.[name as keyof typeof first] }).toEqual({ [name]: value });
      for (const item of translation.items) {
        expect(item.connector).toBe(profile.id);
        expect(item.key.startsWith(`${profile.id}:${connector.host(options)}:`)).toBe(true);
        expect(Object.values(item)).not.toContain(undefined);
        expect(connector.reference(item)).toMatchObject({ key: item.key, kind: item.kind });
        expect(connector.reference(item)).toEqual(connector.reference(structuredClone(item)));
      }
    });

    const pages = profile.fixtures.filter(({ event }) => event.endsWith('.list'));
    it.each(pages)('takes the good elements of $file, and rejects each bad one with its place', async (fixture) => {
      const page = JSON.parse(read(fixture).toString('utf8')) as unknown;
      const list = (Array.isArray(page) ? page : Object.values(page as object).find(Array.isArray)) as unknown[];
      const good = await translatedPage(fixture, page);
      const first = structuredClone(list[0]) as Record<string, unknown>;
      list.splice(1, 0, 7, {});
      list.push(Object.fromEntries(Object.keys(first).map((name) => [name, null])));
      const mixed = await translatedPage(fixture, page);
      expect(mixed.translation).toMatchObject(good.translation ?? {});
      expect(mixed.failure).toBeUndefined();
      const places = [2, 3, list.length].map((at) => `delivery_malformed: element ${at} of ${list.length}: `);
      expect(mixed.rejected?.map(({ reason }) => reason.slice(0, places[0]?.length))).toEqual(places);
      const [alone] = mixed.rejected ?? [];
      expect(attempt(fixture, Buffer.from(alone?.body ?? []))).toBe('delivery_malformed');
    });

    it('ignores events that it does not follow, whatever they carry', () => {
      for (const event of ['some_event_of_tomorrow', 'constructor', '__proto__'])
        for (const source of ['webhook', 'poll', 'fetch'] as const)
          expect(connector.translate({ source, event, body: Buffer.from('{') }, options)).toEqual({
            outcome: 'ignored',
            reason: 'event_not_followed',
          });
    });

    const outside = profile.fixtures.filter(
      ({ file, reason = '' }) => reason.endsWith('_not_in_scope') && !file.includes('gone'),
    );
    it.each(connector.capabilities.pullRequests ? [] : outside)(
      'identifies the item of $file, which may have left',
      (fixture) => {
        const translation = connector.translate({ ...fixture, body: read(fixture) }, options);
        const item = { kind: 'work_item', connector: profile.id, movedAway: expect.stringMatching(/./) };
        expect(translation).toMatchObject({ outcome: 'ignored', outside: item });
      },
    );

    it('takes no webhook for a page or a fetched object', () => {
      for (const fixture of profile.fixtures.filter(({ source }) => source !== 'webhook'))
        expect(connector.translate({ ...fixture, source: 'webhook', body: read(fixture) }, options)).toEqual({
          outcome: 'ignored',
          reason: 'event_not_followed',
        });
    });

    const webhooks = profile.fixtures.filter(({ source }) => source === 'webhook');

    const {
      name: option,
      entries: [named = ''],
    } = followedIn(profile.options);
    const pattern = named.replace(/.$/, '*');
    // The webhooks of Redmine are judged when their issue is read, and some do not tell the name.
    const naming = webhooks.filter(
      ({ outcome, file }) => outcome !== 'ignored' && profile.id !== 'redmine' && !file.endsWith('minimal'),
    );
    it.each(profile.containerId === undefined ? [] : naming)(
      'follows $file by the name, the id, or a pattern, unless it is excluded',
      (fixture) => {
        const outcomeWith = (include: unknown, exclude: readonly string[] = []) => {
          const given = connector.options.safeParse({ ...profile.options, [option]: include, exclude });
          // Bitbucket is configured by names alone.
          return given.success
            ? connector.translate({ ...fixture, body: read(fixture) }, given.data).outcome
            : 'refused';
        };
        expect(outcomeWith([profile.containerId])).toBe(profile.id === 'bitbucket' ? 'refused' : fixture.outcome);
        for (const include of [named.toLowerCase(), pattern]) expect(outcomeWith([include])).toBe(fixture.outcome);
        expect([outcomeWith([`x${named}`]), outcomeWith([pattern], [named])]).toEqual(['ignored', 'ignored']);
      },
    );

    const followed = profile.fixtures.filter(
      ({ reason }) => !['event_not_followed', 'test_delivery'].includes(reason ?? ''),
    );
    const attempt = (fixture: FixtureCase, body: Buffer) => {
      try {
        return connector.translate({ ...fixture, body }, options).outcome;
      } catch (error) {
        return error instanceof SyncError ? error.code : `crashed: ${String(error)}`;
      }
    };

    it.each(followed)('calls broken bodies of $file malformed', (fixture) => {
      const whole = read(fixture);
      const bodies = ['', '{', 'null', '7', '"text"', '{}', '<html></html>', '{"__proto__":{}}', '['.repeat(500)];
      const cut = whole.subarray(0, whole.length >> 1);
      for (const body of [...bodies.map((text) => Buffer.from(text)), cut, Buffer.from([0xff, 0xfe])])
        expect(attempt(fixture, body)).toBe('delivery_malformed');
    });

    // Quarantine raises an alarm, so it must mean that the vendor has changed its payloads.
    it.each(followed.filter(({ source }) => source === 'webhook'))(
      'takes $file without any of its parts, as long as it says what it is about',
      (fixture) => {
        const payload = JSON.parse(read(fixture).toString('utf8')) as object;
        const quarantined = pathsOf(payload).filter((path) =>
          sampleOf([undefined, null], 2).some((value) => {
            const outcome = attempt(fixture, Buffer.from(JSON.stringify(mutated(payload, [{ path, value }]))));
            return !/^(items|references|ignored)$/.test(outcome);
          }),
        );
        expect(quarantined.map((path) => path.join('.')).filter((path) => !profile.about.includes(path))).toEqual([]);
      },
    );

    // Pages are read element by element, as what is fetched.
    const alone = profile.fixtures.filter(({ outcome, source, file }) => {
      return outcome === 'items' && source !== 'poll' && !file.includes('gone');
    });
    it.each(alone)('changes and clears no fact of $file because a part is absent or of a wrong kind', (fixture) => {
      const itemsOf = (content: unknown): readonly Item[] => {
        try {
          const body = Buffer.from(JSON.stringify(content));
          const translation = connector.translate({ ...fixture, body }, options);
          return translation.outcome === 'items' ? translation.items : [];
        } catch {
          return [];
        }
      };
      const payload = JSON.parse(read(fixture).toString('utf8')) as object;
      const whole = new Map(itemsOf(payload).map((item) => [item.key, Object.entries(item)]));
      const isWrong = (item: Item) =>
        whole.get(item.key)?.some(([name, fact]) => {
          const value = item[name as keyof Item] as unknown;
          const isEmpty = value === null || (Array.isArray(value) && value.length === 0);
          return value !== undefined && !isDeepStrictEqual(value, fact) && (isEmpty || !COMPOSED.includes(name));
        });
      const partsThat = (valueAt: (path: readonly string[]) => unknown) => {
        const isChanging = (path: readonly string[]) =>
          itemsOf(mutated(payload, [{ path, value: valueAt(path) }])).some(isWrong);
        const parts = pathsOf(payload).filter(isChanging);
        return [...new Set(parts.map((path) => path.at(-1) ?? '').filter((name) => !/^\d+$/.test(name)))];
      };
      const absent = partsThat(() => undefined);
      expect(absent.filter((name) => !profile.leftOut?.includes(name))).toEqual([]);
      const ofAnotherKind = partsThat((path) => (typeof at(payload, path) === 'number' ? 'text' : 7));
      // A document of Jira without readable content is empty, and ids of Sentry are numbers too.
      expect(ofAnotherKind.filter((name) => !['content', 'type', 'id'].includes(name))).toEqual([]);
    });

    it.each(profile.restricted ? [profile.restricted] : [])(
      'uses nothing of a restricted item before the credential has read it',
      ({ event, payload, options: more }) => {
        const delivery = { source: 'webhook', event, body: Buffer.from(JSON.stringify(payload)) } as const;
        const given = connector.options.parse({ ...profile.options, ...more });
        const translation = connector.translate(delivery, given);
        expect(translation).toMatchObject({ outcome: 'references', references: [{ kind: 'work_item' }] });
        expect(translation).not.toHaveProperty('partialItems');
      },
    );

    it.each(profile.tests)('of $name makes no alarm', ({ event, payload, reason }) => {
      const delivery = { source: 'webhook', event, body: Buffer.from(JSON.stringify(payload)) } as const;
      const translation = connector.translate(delivery, options);
      if (reason === undefined) expect(translation.outcome).toBe('items');
      else expect(translation).toEqual({ outcome: 'ignored', reason });
    });
  });

  describe('samples', async () => {
    const samples = await connector.samples?.();
    const bindings = (connector.namesIn?.(options) ?? []).map((called) => {
      return { entry: called.toLowerCase(), id: profile.containerId ?? called, called };
    });
    const moment = { at: clock.now(), id: '0b9e0a5c-6a0e-4d55-9d0e-5a4f3c2b1a00', bindings };
    const secret = profile.webhook.secrets?.[0] ?? 'the-present-secret';
    const events = Object.entries(samples ?? {});

    it('tell of at least two events', () => expect(events.length).toBeGreaterThan(1));

    it.each(events)('%s is signed as the vendor signs, and in scope', async (_, sample) => {
      const body = Buffer.from(JSON.stringify(sample.payload(options, moment)));
      const headers = { ...sample.headers, ...connector.sign?.(body, secret, moment) };
      const { event, deliveryId } = await connector.verify({ headers, body }, [secret], moment.at);
      expect(deliveryId).toBe(connector.capabilities.namesDeliveries ? moment.id : undefined);
      const others = profile.webhook.secrets?.slice(1) ?? ['another-secret'];
      expect(await codeOf(connector.verify({ headers, body }, others, moment.at))).toBe('signature_mismatch');
      const known = { ...(options as object), names: boundNames(bindings) };
      const translation = connector.translate({ source: 'webhook', event, body }, known);
      expect(translation.outcome).toMatch(/^(items|references)$/);
      const items = translation.outcome === 'items' ? translation.items : [];
      for (const item of items.filter(({ gone }) => !gone)) expect(item.title).toBe(TRIAL);
      expect(connector.eventOf?.(JSON.parse(body.toString('utf8')))).toBe(event);
      expect(body.toString('utf8')).not.toContain(secret);
    });

    it('use no name whose id nobody knows', () => {
      for (const [, sample] of events) {
        const make = () => sample.payload(options, { ...moment, bindings: [] });
        if (profile.containerId === undefined) expect(make).not.toThrow();
        else expect(make).toThrow(/does not know yet which id/);
      }
    });
  });

  describe('poll', () => {
    const { unit, watermark, walk, besides = [], first, validator, foreignNext, switch: feature } = profile.poll;
    // A refused list is followed by a request for its switch.
    const isAsked = (status: number) => feature !== undefined && [403, 404, 410].includes(status);
    const asked = (status: number): Exchange[] => (feature && isAsked(status) ? [{ ...feature.shown, status }] : []);
    const start: PollPosition = { unit, watermark, startedAt: new Date(clock.now()).toISOString() };

    it('names its units', async () => {
      expect(await connect().units(signal)).toContain(unit);
    });

    it('walks more than three pages, and sees each item once', async () => {
      expect(walk.length).toBeGreaterThan(3);
      script([...walk, ...besides]);
      const pages = await walkAll(connect(), start);
      expect(pages).toHaveLength(walk.length);
      const keys = pages.flatMap((page) => {
        const translation = connector.translate({ source: 'poll', event: page.event, body: page.body }, options);
        return translation.outcome === 'items' ? translation.items.map(({ key }) => key) : [];
      });
      expect(new Set(keys).size).toBe(profile.poll.items);
      expect(keys).toHaveLength(profile.poll.items);
      expect(
        pages
          .map(({ newest }) => newest ?? '')
          .toSorted()
          .at(-1),
      ).toBe(profile.poll.newest);
      expect(pages[0]?.etag).toBe(validator?.etag);
    });

    it('walks the same pages where each answer is read aside, as a large one is', async () => {
      script([...walk, ...besides]);
      const pages = await walkAll(connect(), start);
      script([...walk, ...besides]);
      const { read, noting } = readAside();
      const connection = connector.connect(options, { http: noting, clock, logger: silentLogger });
      expect(await walkAll(connection, start)).toEqual(pages);
      // Further requests are small.
      expect(read.filter((isAside) => isAside)).toHaveLength(walk.length);
    });

    it.each(validator ? [validator] : [])(
      'asks with the validator, and a 304 ends the walk',
      async ({ etag, header }) => {
        script([{ ...first, status: 304 }], [header, etag]);
        expect(await connect().poll({ ...start, etag }, signal)).toEqual({ outcome: 'unchanged' });
      },
    );

    it('does not take a 304 that it did not ask for', async () => {
      script([{ ...first, status: 304 }]);
      expect(await codeOf(connect().poll(start, signal))).not.toMatch(/^not a SyncError/);
    });

    it('refuses a next page on another host [A4]', async () => {
      script([foreignNext]);
      expect(await codeOf(connect().poll(start, signal))).toBe('answer_malformed');
    });

    const statuses = { ...STATUSES, ...profile.statuses };
    it.each(Object.entries(statuses))('status %s is %s', async (status, code) => {
      script([{ ...first, status: Number(status), body: '{"message":"no"}' }, ...asked(Number(status))]);
      expect(await codeOf(connect().poll(start, signal))).toBe(code);
      script([{ ...first, status: Number(status), body: '<html>a proxy</html>' }, ...asked(Number(status))]);
      expect(await codeOf(connect().poll(start, signal))).toBe(code);
    });

    it.each(feature ? [feature] : [])(
      'reports a list that is switched off as such, and not one that may not be read',
      async ({ refused, shown, off, on }) => {
        script([
          { ...first, status: refused, body: '{"message":"no"}' },
          { ...shown, body: off },
        ]);
        expect(await codeOf(connect().poll(start, signal))).toBe('feature_off');
        script([
          { ...first, status: refused, body: '{"message":"no"}' },
          { ...shown, body: on },
        ]);
        expect(await codeOf(connect().poll(start, signal))).toBe(refused === 403 ? 'forbidden' : 'not_found');
      },
    );

    it.each(limits)('%s is waited out', async (_, { answer, atLeast }) => {
      script([{ ...first, ...answer }]);
      const thrown = (await connect()
        .poll(start, signal)
        .catch((error: unknown) => error)) as SyncError;
      expect(thrown.code).toBe('rate_limited');
      expect(thrown.retryAfter).toBeGreaterThanOrEqual(atLeast);
      expect(thrown.retryAfter).toBeLessThanOrEqual(LONGEST_DICTATED_WAIT);
    });

    it.each(limits)('%s is waited out for an hour at most, whatever it asks', async (_, told) => {
      const headers = Object.fromEntries(
        Object.entries(told.answer.headers ?? {}).map(([name, value]) => [name, inYears(name, value)]),
      );
      script([{ ...first, ...told.answer, headers }]);
      const thrown = (await connect()
        .poll(start, signal)
        .catch((error: unknown) => error)) as SyncError;
      expect(thrown.code).toBe('rate_limited');
      expect(thrown.retryAfter).toBeLessThanOrEqual(LONGEST_DICTATED_WAIT);
    });

    it.each(['', '<html>log in</html>', '[{"number":1', 'null', '{"message":"no list"}', '['.repeat(500)])(
      'calls a page that reads %j malformed',
      async (body) => {
        script([{ ...first, body }]);
        expect(await codeOf(connect().poll(start, signal))).toBe('answer_malformed');
      },
    );

    it('follows no redirect to another host [A4]', async () => {
      for (const status of [301, 302, 307, 308]) {
        script([{ ...first, status, headers: { location: `https://evil.example${first.path}` } }]);
        expect(await codeOf(connect().poll(start, signal))).toBe('refused');
      }
    });

    it('goes on from no page that the vendor could not have named', async () => {
      expect(await codeOf(connect().poll({ ...start, page: 'https://evil.example' }, signal))).toBe('internal');
    });

    it('asks nothing when it is told to stop', async () => {
      expect(await codeOf(connect().poll(start, AbortSignal.abort()))).toBe('aborted');
    });
  });

  describe('fetch', () => {
    const { kind = 'pull_request', reference: locator } = profile.fetch;
    const reference = { kind, key: 'k', locator };
    const translated = async () => {
      const { event, body } = await connect().fetch(reference, signal);
      return connector.translate({ source: 'fetch', event, body }, options);
    };

    it('brings the object', async () => {
      script(profile.fetch.found);
      expect(await translated()).toMatchObject({ outcome: 'items', items: [{ connector: profile.id }] });
    });

    it('brings the same where the answer is read aside, as a large one is', async () => {
      script(profile.fetch.found);
      const plain = await connect().fetch(reference, signal);
      script(profile.fetch.found);
      const { read, noting } = readAside();
      const connection = connector.connect(options, { http: noting, clock, logger: silentLogger });
      expect(await connection.fetch(reference, signal)).toEqual(plain);
      expect(read.filter((isAside) => isAside)).toHaveLength(1);
    });

    it('brings a gone item for what is gone', async () => {
      script(profile.fetch.gone);
      expect(await translated()).toMatchObject({ outcome: 'items', items: [{ gone: true }] });
    });

    const { found, commits } = profile.fetch;
    it.each(commits ? [commits] : [])(
      'brings messages of commits where they are asked for, newest first',
      async ({ pages, foreignNext: elsewhere }) => {
        const withCommits = connector.options.parse({ ...profile.options, commits: true });
        const connection = connector.connect(withCommits, { http, clock, logger: silentLogger });
        script([...found, ...pages]);
        const { event, body } = await connection.fetch(reference, signal);
        const translation = connector.translate({ source: 'fetch', event, body }, withCommits);
        expect(translation).toMatchObject({ items: [{ commitMessages: ['Three', 'Two', 'One'] }] });
        script([...found, elsewhere]);
        expect(await codeOf(connection.fetch(reference, signal))).toBe('answer_malformed');
      },
    );

    const { reviews } = profile.fetch;
    it.each(reviews ? [reviews] : [])('brings reviews where they are wanted and may be read', async (wanted) => {
      const withReviews = async (answer: Exchange) => {
        script([wanted.of, answer]);
        const { event, body } = await connect().fetch(reference, signal, { wantsReviews: true });
        return connector.translate({ source: 'fetch', event, body }, options);
      };
      expect(connector.fetchesReviews?.(options)).toBe(true);
      const shown = { reviewsReadAt: expect.any(Number) as number };
      expect(await withReviews(wanted.answer)).toMatchObject({ items: [{ ...wanted.facts, ...shown }] });
      const refused = await withReviews({ ...wanted.answer, status: 403, body: '{}' });
      expect(refused).toMatchObject({ outcome: 'items', items: [expect.not.objectContaining(shown)] });
    });

    it('claims nothing about what it may not see', async () => {
      script(profile.fetch.hidden);
      expect(await codeOf(connect().fetch(reference, signal))).toBe('not_found');
    });

    const { unjudged } = profile.fetch;
    it.each(unjudged ? [unjudged] : [])(
      'judges what a webhook did not tell enough of when it has fetched it',
      async ({ reference: given, found: own = found, missing }) => {
        const fetched = async (by: unknown) => {
          const { event, body } = await connect().fetch({ kind, key: 'k', locator: given }, signal);
          return connector.translate({ source: 'fetch', event, body }, by);
        };
        script(own);
        expect(await fetched(options)).toMatchObject({ outcome: 'items', items: [{ connector: profile.id }] });
        const nothing = Object.fromEntries(['projects', 'teams'].map((name) => [name, ['nothing-of-that']]));
        script(own);
        expect(await fetched({ ...(options as object), ...nothing })).toMatchObject({
          outcome: 'ignored',
          reason: expect.stringMatching(/_not_in_scope$/),
        });
        script(missing);
        expect(await fetched(options)).toEqual({ outcome: 'ignored', reason: 'not_found' });
      },
    );

    it('asks for nothing that a locator smuggles in [A4]', async () => {
      for (const key of Object.keys(reference.locator))
        for (const value of ['../../user', '1/../../user', '1?x=', '1%2f..', '', 'a/..']) {
          const locator = { ...reference.locator, [key]: value };
          expect(await codeOf(connect().fetch({ ...reference, locator }, signal))).toBe('internal');
        }
    });
  });

  describe('check', () => {
    it('finds nothing wrong where nothing is', async () => {
      script(profile.check.good);
      const findings = await connect().check(signal);
      expect(findings.filter(({ level }) => level === 'error')).toEqual([]);
      expect(findings.length).toBeGreaterThan(1);
    });

    it('reports a refused credential, with a remedy and without the credential', async () => {
      script(profile.check.refused);
      const findings = await connect().check(signal);
      const errors = findings.filter(({ level }) => level === 'error');
      expect(errors.length).toBeGreaterThan(0);
      for (const { hint } of errors) expect(hint).toBeTruthy();
      const text = JSON.stringify(findings);
      expect(
        Object.values(profile.options).filter((value) => typeof value === 'string' && text.includes(value)),
      ).toEqual([]);
    });
  });
});

/** A signature that says the same to whoever reads it loosely. */
const OTHERWISE: Readonly<Record<string, (right: string) => string>> = {
  'cut by a sign': (right) => right.slice(0, -1),
  'with a sign more': (right) => `${right}0`,
  'twice in one text': (right) => right + right,
  'with another value before it': (right) => `sha256=${'0'.repeat(64)}, ${right}`,
  'of SHA-1 by its name': (right) => right.replace(/^(?:sha256=)?/, 'sha1='),
  'of no algorithm by its name': (right) => right.replace(/^(?:sha256=|v1,)?/, 'none='),
  'in signs of double width': (right) =>
    right.replaceAll(/[0-9A-Za-z]/g, (sign) => String.fromCharCode(sign.charCodeAt(0) + 0xfee0)),
  'in the other case': (right) =>
    right.replaceAll(/[a-z]/gi, (sign) => (/[a-z]/.test(sign) ? sign.toUpperCase() : sign.toLowerCase())),
  'behind a byte order mark': (right) => `\ufeff${right}`,
  'with white space around it': (right) => ` ${right} `,
  'before a line break': (right) => `${right}\n`,
  'before a NUL': (right) => `${right}\0`,
  'encoded as in an address': (right) => right.replaceAll(/[a-f0-9]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`),
};

/** Signs that a header may have in the place of another. */
const SPELLINGS = '0123456789abcdefABCDEFxyzXYZ+/=-_., \0\t\u00e9\uff41';

function isSamePassword(made: string, right: string): boolean {
  const [one, other] = [made, right].map((value) => {
    const text = Buffer.from(/^Basic ([A-Za-z0-9+/]*={0,2})$/.exec(value)?.[1] ?? '', 'base64').toString('utf8');
    return text.includes(':') ? text.slice(text.indexOf(':') + 1) : undefined;
  });
  return one !== undefined && one === other;
}

function holds(body: unknown, wanted: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(wanted).every(([key, value]) => isDeepStrictEqual((body as never)[key], value));
}

type Page = Extract<PollPage, { outcome: 'page' }>;

async function walkAll(connection: Connection, start: PollPosition): Promise<Page[]> {
  const pages: Page[] = [];
  for (let page: string | undefined; ; ) {
    const got = await connection.poll({ ...start, page }, signal);
    if (got.outcome !== 'page') throw new Error('the walk ended without a page');
    pages.push(got);
    if (got.next === undefined) return pages;
    page = got.next;
  }
}

/** Facts that are composed of several parts, or of parts of parts. */
const COMPOSED = ['description', 'rawState', 'emails', 'reviews', 'reviewDecision', 'updatedAt', 'version', 'labels'];

function at(payload: object, path: readonly string[]): unknown {
  return path.reduce<unknown>((part, name) => (part as Record<string, unknown>)[name], payload);
}

interface Mutation {
  readonly path: readonly string[];
  readonly value: unknown;
}

function pathsOf(value: unknown, above: readonly string[] = []): string[][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) => [[...above, key], ...pathsOf(part, [...above, key])]);
}

function mutated(payload: object, mutations: readonly Mutation[]): unknown {
  const copy: unknown = structuredClone(payload);
  for (const { path, value } of mutations) {
    let holder = copy as Record<string, unknown> | undefined | null;
    for (const key of path.slice(0, -1)) holder = holder?.[key] as Record<string, unknown> | undefined | null;
    if (typeof holder !== 'object' || holder === null) continue;
    if (value === undefined) delete holder[path.at(-1) as string];
    else holder[path.at(-1) as string] = structuredClone(value);
  }
  return copy;
}

/**
 * The section "Names" of each connector's page shows how people write the names of its items. Each example is read by the link
 * rules of a workspace with all connectors.
 */

/** The item that the examples of a page name. */
const ITEMS: Readonly<Record<string, Partial<WorkItem>>> = {
  'azure-boards': { host: 'org-1', identifier: '5', url: 'https://dev.azure.com/acme/Web%20Shop/_workitems/edit/5' },
  github: { containerName: 'acme/api', identifier: '#12', url: 'https://github.com/acme/api/issues/12' },
  gitlab: { containerName: 'group/project', identifier: '#4', url: 'https://gitlab.com/group/project/-/issues/4' },
  jira: { host: 'cloud-1', identifier: 'ENG-12', url: 'https://acme.atlassian.net/browse/ENG-12' },
  linear: { host: 'org-1', identifier: 'ENG-12', url: 'https://linear.app/acme/issue/ENG-12' },
  redmine: { host: 'redmine.example.com', identifier: '#12', url: 'https://redmine.example.com/issues/12' },
  sentry: { identifier: 'FRONT-END-1A', url: 'https://acme.sentry.io/issues/123' },
  shortcut: { identifier: 'sc-318', url: 'https://app.shortcut.com/acme/story/318' },
};

const vendors = connectors.flatMap(({ id, publicHost, grammar, capabilities }) => {
  const { host = publicHost } = ITEMS[id] ?? {};
  return grammar === undefined ? [] : [{ id, host, grammar, capabilities }];
});
const rules = createLinkRules({
  trailers: [],
  links: [],
  addresses: [],
  grammars: vendors.map(({ id, host, grammar }) => ({ connector: id, host, grammar })),
});

type Vendor = (typeof vendors)[number];

const pageOf = (id: string) => readFileSync(new URL(`../../src/connectors/${id}/README.md`, import.meta.url), 'utf8');
const sectionOf = (id: string) => /^## Names\n(.*?)^## /ms.exec(pageOf(id))?.[1] ?? '';
const quoted = (text: string) => Array.from(text.matchAll(/`([^`]+)`/g), ([, each = '']) => each);
const examplesOf = (id: string) =>
  Array.from(sectionOf(id).matchAll(/^\| (`.*`) +\| (.*?) +\|$/gm)).flatMap(([, texts = '', meaning = '']) =>
    quoted(texts).map((text) => ({ text, meaning })),
  );

function itemOf({ id, host }: Vendor): WorkItem {
  return workItem({ connector: id, host, key: `${id}:${host}:1`, containerId: '10', ...ITEMS[id] });
}

/** A pull request of this vendor, in the project of the item. */
function pullOf({ id, host }: Pick<Vendor, 'id' | 'host'>, text: string, isBranch: boolean): PullRequest {
  const fields = isBranch ? { headBranch: text } : { description: text };
  return pull({ connector: id, host, repoId: '10', url: `https://${host}/group/project/pull/1`, ...fields });
}

function meaningOf(item: WorkItem, named: PullRequest, reader: Vendor, grammar: Grammar): string {
  const own = new Set(namesOfItem(item, grammar));
  const mentions = rules
    .mentionsOf(named, { name: 'main', grammar: reader.grammar })
    .filter(({ name }) => own.has(name));
  const intents = mentions.map(({ words, rule }) =>
    intentOf(rule === 'item-url' ? { ...grammar, needsWord: false } : grammar, words),
  );
  if (intents.includes('closes')) return 'closes';
  return intents.includes('mentions') ? 'names' : 'nothing';
}

const forges = vendors.filter(({ capabilities }) => capabilities.pullRequests);
const forge = (id: string) => forges.find((each) => each.id === id) as Vendor;

describe.each(vendors.map((vendor) => [vendor.id, vendor] as const))('the page of %s', (id, vendor) => {
  const { grammar } = vendor;
  const examples = examplesOf(id);

  it('lists the words that close', () => {
    const listed = /^Words that close: (.*?)\./m.exec(sectionOf(id))?.[1] ?? '';
    expect(quoted(listed)).toEqual(grammar.closing);
  });

  it.each(examples)('says what $text means: $meaning', ({ text, meaning }) => {
    const isOwn = meaning.includes('its own');
    const readers = isOwn ? [forge(id)] : meaning === 'nothing' ? [forge('bitbucket')] : forges;
    for (const reader of readers) {
      const named = pullOf(reader, text, meaning.includes('branch'));
      expect({ from: reader.id, meaning: meaningOf(itemOf(vendor), named, reader, grammar) }).toEqual({
        from: reader.id,
        meaning: /^\w+/.exec(meaning)?.[0],
      });
    }
  });
});
