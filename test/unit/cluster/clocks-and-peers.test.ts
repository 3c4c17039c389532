import { describe, expect, it, test } from 'vitest';
import { createClockOffset, ledgerClock } from '../../../src/cluster/clock-offset.ts';
import { createExpiryReaper, createUnownedMonitor } from '../../../src/cluster/postgres-holder.ts';
import {
  createSignatures,
  type Identity,
  isSignedBody,
  SIGNATURE_HEADER,
  type Signed,
  type SignedRequest,
} from '../../../src/cluster/replicas.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { createTravellingClock } from '../../support/fakes/travelling-clock.ts';

const HOUR = 3_600_000;

describe('the estimate of the store clock', () => {
  it('is as exact as the fastest answer', () => {
    const store = createClockOffset();
    expect(store.ahead()).toBeUndefined();
    store.addSample(1_000_000, { began: 100, ended: 104 });
    expect(store.ahead()).toBe(1_000_000 - 102);
    store.addSample(1_001_000, { began: 1_100, ended: 1_400 });
    expect(store.ahead()).toBe(1_000_000 - 102);
    expect(store.timesSet()).toBe(0);
  });

  it('follows a clock that drifts, and does not count it as set', () => {
    const store = createClockOffset();
    for (let second = 0; second < 10_000; second++)
      store.addSample(second * 1_001, { began: second * 1_000, ended: second * 1_000 + 1 });
    expect(store.ahead()).toBeCloseTo(9_999, -1);
    expect(store.timesSet()).toBe(0);
  });

  it.each([HOUR, -2_500])('counts one jump of %d ms as one setting', (jump) => {
    const store = createClockOffset();
    store.addSample(1_000, { began: 0, ended: 2 });
    for (let second = 1; second < 5; second++)
      store.addSample(1_000 + second * 1_000 + jump, { began: second * 1_000, ended: second * 1_000 + 2 });
    expect(store.timesSet()).toBe(1);
    expect(store.ahead()).toBeCloseTo(1_000 + jump, -1);
  });

  it.each([
    [2_000, 0],
    [-2_000, 0],
    [2_001, 1],
    [-2_001, 1],
  ])('counts a difference as a setting only above 2 s: %d ms', (off, times) => {
    const store = createClockOffset();
    store.addSample(1_000, { began: 0, ended: 0 });
    store.addSample(6_000 + off, { began: 5_000, ended: 5_000 });
    expect(store.timesSet()).toBe(times);
  });

  it('does not count a jump that the latency of an answer explains', () => {
    const store = createClockOffset();
    store.addSample(1_000, { began: 0, ended: 0 });
    store.addSample(6_000, { began: 0, ended: 5_000 });
    store.addSample(6_000, { began: 5_000, ended: 10_000 });
    expect(store.timesSet()).toBe(0);
  });
});

describe('the clocks of a process over a store', () => {
  function open() {
    const clock = createTravellingClock();
    const store = createClockOffset();
    const elapsed = () => clock.elapsed();
    const sample = (ahead: number) => store.addSample(elapsed() + ahead, { began: elapsed(), ended: elapsed() });
    return { clock, store, elapsed, sample };
  }

  it('keep the ledger unchanged when the store clock is set', async () => {
    const { clock, store, elapsed, sample } = open();
    sample(5_000_000);
    const ledger = ledgerClock(clock, '1.0', { store, elapsed });
    const before = ledger.monotonic();
    sample(5_000_000 + HOUR);
    await clock.advance(1_000);
    expect(ledger.monotonic()).toBeCloseTo(before + 1_000, 3);
  });

  it('continue the ledger of the previous process, and never go back', async () => {
    const first = open();
    first.sample(5_000_000);
    const before = ledgerClock(first.clock, '1.0', first);
    await first.clock.advance(10_000);
    const next = open();
    // Its machine has another uptime.
    await next.clock.advance(777_000);
    next.sample(first.elapsed() + 5_000_000 - next.elapsed());
    const after = ledgerClock(next.clock, '1.0', next);
    expect(after.bootId).toBe(before.bootId);
    expect(after.monotonic()).toBeCloseTo(before.monotonic(), 3);
    next.sample(first.elapsed() + 5_000_000 - next.elapsed() - 500);
    const latest = after.monotonic();
    expect(latest).toBeCloseTo(before.monotonic(), 3);
    await next.clock.advance(100);
    expect(after.monotonic()).toBe(latest);
  });
});

const TTL = 3_000;
const replica = (incarnation: string, expires_at: number) => ({
  id: incarnation,
  incarnation,
  address: '',
  about: '',
  expires_at,
});

/** A read of these rows that takes 10 ms. */
const read = (began: number, ...replicas: ReturnType<typeof replica>[]) => ({ began, ended: began + 10, replicas });

describe('the expiry reaper', () => {
  it('expires a process exactly one TTL after the end of the read that first returned its last renewal', () => {
    const reaper = createExpiryReaper(TTL);
    const expired = (...rows: Parameters<typeof read>) => reaper.expired(read(...rows)).map(({ id }) => id);
    expect(reaper.nextExpiry()).toBe(Number.POSITIVE_INFINITY);
    expect(expired(1_000, replica('a', 1), replica('b', 1))).toEqual([]);
    expect(reaper.nextExpiry()).toBe(1_010 + TTL);
    // Any other value is a renewal, also an earlier one.
    expect(expired(2_000, replica('a', 1), replica('b', 0))).toEqual([]);
    expect(expired(1_009 + TTL, replica('a', 1), replica('b', 0))).toEqual([]);
    expect(expired(1_010 + TTL, replica('a', 1), replica('b', 0))).toEqual(['a']);
    expect(expired(2_010 + TTL, replica('a', 1), replica('b', 0))).toEqual(['a', 'b']);
  });

  it('forgets a process whose row is gone, and treats it as new when the row returns', () => {
    const reaper = createExpiryReaper(TTL);
    reaper.expired(read(0, replica('a', 1)));
    reaper.expired(read(TTL - 500));
    expect(reaper.nextExpiry()).toBe(Number.POSITIVE_INFINITY);
    expect(reaper.expired(read(TTL + 500, replica('a', 1)))).toEqual([]);
    expect(reaper.nextExpiry()).toBe(TTL + 510 + TTL);
  });
});

it('the monitor of unowned workspaces reports a workspace without an owner at two checks in a row, and not one that was acquired in between', () => {
  let now = 0;
  const monitor = createUnownedMonitor(() => now);
  expect(monitor.isDue()).toBe(false);
  now = 10_000;
  expect(monitor.isDue()).toBe(true);
  monitor.record([1, 2]);
  now = 19_999;
  expect([monitor.isDue(), monitor.unowned().size]).toEqual([false, 0]);
  now = 20_000;
  monitor.record([2, 3]);
  now = 21_000;
  expect([...monitor.unowned()]).toEqual([[2, 11_000]]);
  monitor.record([]);
  expect(monitor.unowned().size).toBe(0);
});

const KEY = Buffer.alloc(32, 7);
const BODY = Buffer.from('{"a":1}');
const IDENTITY: Identity = { role: 'admin', workspaces: ['acme'], ip: '192.0.2.1', gatewayToken: 'gwt_1' };
const REQUEST: SignedRequest = {
  method: 'POST',
  url: '/admin/workspaces/acme/questions/held?patience=1',
  headers: { 'content-type': 'application/json', 'x-worksync-user': 'ada' },
};

let now = 1_000_000;
function signer({ secretKey = KEY, installation = 'one' } = {}) {
  return createSignatures(secretKey, installation, { now: () => now }, systemRandom());
}

/** The request as it arrives, with changes made on the way. */
function arriving(signature: string, changes: Partial<SignedRequest> = {}): SignedRequest {
  const request = { ...REQUEST, ...changes };
  return { ...request, headers: { ...request.headers, [SIGNATURE_HEADER]: signature } };
}

const sign = () => signer().sign(REQUEST, BODY, 'receiver', IDENTITY);

describe('a request that another replica signed', () => {
  test('is verified, with its caller and its body', () => {
    const signed = signer().verify(arriving(sign()), 'receiver') as Signed;
    expect(signed.identity).toEqual(IDENTITY);
    expect(isSignedBody(signed, BODY)).toBe(true);
    expect(isSignedBody(signed, Buffer.from('{"a":2}'))).toBe(false);
    expect(isSignedBody(signed, undefined)).toBe(false);
  });

  test('is accepted once', () => {
    const receiver = signer();
    const signature = sign();
    expect(receiver.verify(arriving(signature), 'receiver')).toMatchObject({ identity: IDENTITY });
    expect(receiver.verify(arriving(signature), 'receiver')).toBe('wrong');
    expect(receiver.verify(arriving(sign()), 'receiver')).toMatchObject({ identity: IDENTITY });
  });

  test.each([
    [60_000, 'accepted'],
    [60_001, 'wrong'],
    [-60_000, 'accepted'],
    [-60_001, 'wrong'],
  ])('%d ms later is %s', (later, expected) => {
    const signature = sign();
    const before = now;
    now += later;
    const found = signer().verify(arriving(signature), 'receiver');
    now = before;
    expect(found === 'wrong' ? 'wrong' : 'accepted').toBe(expected);
  });

  test('is too old when its nonce is forgotten', () => {
    const receiver = signer();
    const signature = sign();
    receiver.verify(arriving(signature), 'receiver');
    const before = now;
    for (; now < before + 300_000; now += 10_000) {
      receiver.verify(arriving(sign()), 'receiver');
      expect(receiver.verify(arriving(signature), 'receiver')).toBe('wrong');
    }
    now = before;
  });

  test.each<[string, Partial<SignedRequest>]>([
    ['method', { method: 'GET' }],
    ['path', { url: '/admin/workspaces/other/questions/held?patience=1' }],
    ['query', { url: '/admin/workspaces/acme/questions/held?patience=2' }],
    ['user', { headers: { ...REQUEST.headers, 'x-worksync-user': 'eve' } }],
    ['type of its body', { headers: { ...REQUEST.headers, 'content-type': 'text/plain' } }],
    ['credential', { headers: { ...REQUEST.headers, authorization: 'Bearer another' } }],
  ])('is rejected with another %s', (_what, changes) => {
    expect(signer().verify(arriving(sign(), changes), 'receiver')).toBe('wrong');
  });

  test('is accepted by its receiver only', () => {
    expect(signer().verify(arriving(sign()), 'another')).toBe('wrong');
    expect(signer().verify(arriving(sign()), undefined)).toBe('wrong');
  });

  test('is rejected with another key, and by another installation with the same key', () => {
    expect(signer({ secretKey: Buffer.alloc(32, 8) }).verify(arriving(sign()), 'receiver')).toBe('wrong');
    expect(signer({ installation: 'two' }).verify(arriving(sign()), 'receiver')).toBe('wrong');
  });

  test('is rejected if its caller was changed', () => {
    const [statement = '', mac = ''] = sign().split('.');
    const content = JSON.parse(Buffer.from(statement, 'base64url').toString()) as object;
    const changed = { ...content, identity: { ...IDENTITY, workspaces: null } };
    const forged = `${Buffer.from(JSON.stringify(changed)).toString('base64url')}.${mac}`;
    expect(signer().verify(arriving(forged), 'receiver')).toBe('wrong');
  });

  test('is rejected in another spelling of the same bytes', () => {
    const signature = sign();
    const last = signature.at(-1) as string;
    const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    // The lowest bits of the last character belong to no byte.
    const twin = signature.slice(0, -1) + (ALPHABET[ALPHABET.indexOf(last) ^ 1] as string);
    for (const other of [`${signature}.`, `${signature}.more`, `${signature}=`, `${signature} `, twin, `${signature}!`])
      expect(signer().verify(arriving(other), 'receiver')).toBe('wrong');
  });

  test.each(['', '.', 'a', 'e30.e30', `${'a'.repeat(9_000)}.b`])(
    'is rejected if the signature is malformed: %#',
    (text) => {
      expect(signer().verify(arriving(text), 'receiver')).toBe('wrong');
    },
  );

  test('without a signature it is not from a replica', () => {
    expect(signer().verify(REQUEST, 'receiver')).toBeUndefined();
  });
});
