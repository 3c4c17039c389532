import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';
import { pendingDeliveries } from '../../src/store/deliveries/inbox.ts';
import { SECRET, signed } from '../support/fakes/notes.ts';
import { drawn, isDeep } from '../support/harness/depth.ts';
import { activeWith, type Endpoint, inboxOf, openEndpoint, openTestStore } from '../support/harness/intake.ts';
import type { OpenedStore } from '../support/harness/store.ts';

const PATH = '/webhooks/main/notes';
/** GitHub sends no more than the first. */
const LARGEST = (isDeep ? 25 : 1) * 1024 * 1024;

let store: OpenedStore;
let endpoint: Endpoint;
beforeEach(async () => {
  store = await openTestStore();
  endpoint = await openEndpoint(store, [activeWith()]);
});

describe('a good delivery', () => {
  test('is stored as it came and acknowledged', async () => {
    const body = '{"title": "héllo"}';
    const answer = await endpoint.post(PATH, body, signed(body, 'id-1'));
    expect([answer.status, answer.body]).toEqual([202, '{"delivery":"new"}']);
    expect(await inboxOf(store)).toMatchObject([
      { connection: 'notes', delivery_key: 'id-1', source: 'webhook', event: 'note', body, state: 'pending' },
    ]);
  });

  test('100 times at once is one row, and all are acknowledged', async () => {
    const body = JSON.stringify({ text: 'x'.repeat(21_000) });
    const answers = await Promise.all(Array.from({ length: 100 }, () => endpoint.post(PATH, body, signed(body))));
    expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 202));
    expect(answers.filter((answer) => answer.body.includes('"new"'))).toHaveLength(1);
    expect(await inboxOf(store)).toHaveLength(1);
    expect(endpoint.counts).toEqual(
      new Map([
        ['notes new', 1],
        ['notes repeated', 99],
      ]),
    );
  });

  test('with malformed JSON is stored and acknowledged: reconcile shows it in quarantine', async () => {
    const bodies = [Buffer.from('{"cut of'), Buffer.from([0xff, 0xfe, 0x00]), Buffer.from('['.repeat(200_000))];
    for (const [index, body] of bodies.entries())
      expect((await endpoint.post(PATH, body, signed(body, `id-${index}`))).status).toBe(202);
    const pending = await pendingDeliveries(store.query, 10, 1_000_000);
    expect(pending.map(({ body }) => body)).toEqual(bodies);
  });

  test('replayed months later, when its body was purged, changes nothing [A3]', async () => {
    await endpoint.post(PATH, 'x', signed('x'));
    await store.query.updateTable('inbox').set({ state: 'applied', body: null, settled_at: 1 }).execute();
    const before = await inboxOf(store);
    expect((await endpoint.post(PATH, 'x', signed('x'))).body).toBe('{"delivery":"repeated"}');
    expect(await inboxOf(store)).toEqual(before);
  });

  test('is taken with the present secret and with the next one', async () => {
    endpoint = await openEndpoint(store, [activeWith({ secrets: [SECRET, 'the next one'] })]);
    expect((await endpoint.post(PATH, 'x', signed('x', 'a'))).status).toBe(202);
    expect((await endpoint.post(PATH, 'x', signed('x', 'b', 'the next one'))).status).toBe(202);
    expect((await endpoint.post(PATH, 'x', signed('x', 'c', 'an old one'))).status).toBe(401);
  });
});

describe('what is not signed', () => {
  test.each<[string, Record<string, string>, string]>([
    ['no signature', {}, 'signature_missing'],
    ['an empty one', { 'x-notes-signature': '' }, 'signature_mismatch'],
    ['one of another body', signed('another'), 'signature_mismatch'],
    ['one by another secret', signed('{}', 'id', 'guess'), 'signature_mismatch'],
  ])('%s: 401, nothing stored, counted, logged without the signature', async (_name, headers, code) => {
    const answer = await endpoint.post(PATH, '{}', headers);
    expect([answer.status, answer.body]).toEqual([401, JSON.stringify({ error: code })]);
    expect(await inboxOf(store)).toEqual([]);
    expect(endpoint.counts).toEqual(new Map([['notes refused', 1]]));
    expect(endpoint.warnings).toEqual([{ connection: 'notes', code, address: '127.0.0.1' }]);
  });

  test('never gets in, whatever bytes and signatures are tried [A1]', async () => {
    const token = fc.string({ unit: fc.constantFrom(...'0123456789abcdef=sha,. v1'.split('')), maxLength: 80 });
    const numRuns = drawn(400);
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1, maxLength: 200 }),
        token,
        fc.boolean(),
        async (bytes, text, prefixed) => {
          await endpoint.clock.advance(1_000);
          const signature = prefixed ? `sha256=${text}` : text;
          const answer = await endpoint.post(PATH, Buffer.from(bytes), {
            ...signed('{}'),
            'x-notes-signature': signature,
          });
          expect(answer.status).toBe(401);
        },
      ),
      { numRuns },
    );
    expect(await inboxOf(store)).toEqual([]);
    expect(endpoint.counts.get('notes refused')).toBe(numRuns);
  });

  test('is refused as long as there is time to look at it, makes its address suspect, and is one line in the log', async () => {
    const flood = async () => {
      for (let index = 0; index < 70; index++) expect((await endpoint.post(PATH, '{}', {})).status).toBe(401);
    };
    expect((await endpoint.post(PATH, 'x', signed('x'))).status).toBe(202);
    expect(endpoint.isSuspect()).toBe(false);
    await flood();
    expect(endpoint.isSuspect()).toBe(true);
    expect(endpoint.warnings).toHaveLength(1);
    // A valid sender at the same address is accepted.
    expect((await endpoint.post(PATH, 'y', signed('y', 'id-y'))).status).toBe(202);
    await flood();
    expect(endpoint.isSuspect()).toBe(true);
  });
});

describe('the route', () => {
  test('answers alike for an unknown workspace and an unknown connection, and refuses where no secret is set', async () => {
    endpoint = await openEndpoint(store, [activeWith(), activeWith({ name: 'open', secrets: [] })]);
    const names = ['other/notes', 'main/other', 'main/__proto__', 'main', 'main/open/more'];
    for (const name of names) {
      const answer = await endpoint.post(`/webhooks/${name}`, 'x', signed('x'));
      expect([name, answer.status, answer.body]).toEqual([name, 404, '{"error":"not_found"}']);
    }
    const unsigned = await endpoint.post('/webhooks/main/open', 'x', signed('x'));
    expect([unsigned.status, unsigned.body]).toEqual([401, '{"error":"signature_missing"}']);
    expect(await inboxOf(store)).toEqual([]);
  });

  test('takes POST alone, and no compressed bodies', async () => {
    for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const answer = await fetch(endpoint.url + PATH, { method });
      expect([method, answer.status, answer.headers.get('allow')]).toEqual([method, 405, 'POST']);
    }
    const packed = await endpoint.post(PATH, 'x', { ...signed('x'), 'content-encoding': 'gzip' });
    expect(packed.status).toBe(415);
  });

  test(`takes what the vendor sends at most, and refuses more: ${LARGEST} bytes`, async () => {
    endpoint = await openEndpoint(store, [activeWith({ connector: { largestDelivery: LARGEST } })]);
    const tooLarge = Buffer.alloc(LARGEST + 1, 'x');
    const answer = await endpoint.post(PATH, tooLarge, signed(tooLarge));
    expect([answer.status, answer.body]).toEqual([413, '{"error":"payload_too_large"}']);
    const largest = tooLarge.subarray(1);
    expect((await endpoint.post(PATH, largest, signed(largest))).status).toBe(202);
    expect(await inboxOf(store)).toHaveLength(1);
  });

  test("holds each connection to its own vendor's limit, also without a length", async () => {
    const small = activeWith({ name: 'small', connector: { largestDelivery: 1_000 } });
    endpoint = await openEndpoint(store, [activeWith({ connector: { largestDelivery: 2_000 } }), small]);
    const path = '/webhooks/main/small';
    const body = Buffer.alloc(1_001, 'x');
    expect((await endpoint.post(path, body, signed(body))).status).toBe(413);
    const chunked = { method: 'POST', body: new Blob([body]).stream(), headers: signed(body), duplex: 'half' };
    expect((await fetch(endpoint.url + path, chunked as RequestInit)).status).toBe(413);
    expect(await inboxOf(store)).toEqual([]);
  });
});
