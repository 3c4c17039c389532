import { describe, expect, test } from 'vitest';
import {
  createSignatures,
  type Identity,
  isSignedBody,
  SIGNATURE_HEADER,
  type Signed,
  type SignedRequest,
} from '../../../src/cluster/signature.ts';
import { systemRandom } from '../../../src/platform/lib/random.ts';

const KEY = Buffer.alloc(32, 7);
const BODY = Buffer.from('{"a":1}');
const IDENTITY: Identity = { role: 'admin', workspaces: ['acme'], ip: '192.0.2.1', gatewayToken: 'gwt_1' };
const REQUEST: SignedRequest = {
  method: 'POST',
  url: '/admin/workspaces/acme/questions/held?patience=1',
  headers: { 'content-type': 'application/json', 'x-worksync-user': 'ada' },
};

let now = 1_000_000;
function replica(changes: { secretKey?: Buffer; installation?: string } = {}) {
  return createSignatures({ secretKey: KEY, installation: 'one', now: () => now, random: systemRandom(), ...changes });
}

/** The request as it arrives, with changes made on the way. */
function arriving(signature: string, changes: Partial<SignedRequest> = {}): SignedRequest {
  const request = { ...REQUEST, ...changes };
  return { ...request, headers: { ...request.headers, [SIGNATURE_HEADER]: signature } };
}

const sign = () => replica().sign(REQUEST, BODY, 'receiver', IDENTITY);

describe('a request that another replica signed', () => {
  test('is verified, with its caller and its body', () => {
    const signed = replica().verify(arriving(sign()), 'receiver') as Signed;
    expect(signed.identity).toEqual(IDENTITY);
    expect(isSignedBody(signed, BODY)).toBe(true);
    expect(isSignedBody(signed, Buffer.from('{"a":2}'))).toBe(false);
    expect(isSignedBody(signed, undefined)).toBe(false);
  });

  test('is accepted once', () => {
    const receiver = replica();
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
    const found = replica().verify(arriving(signature), 'receiver');
    now = before;
    expect(found === 'wrong' ? 'wrong' : 'accepted').toBe(expected);
  });

  test('is too old when its nonce is forgotten', () => {
    const receiver = replica();
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
    expect(replica().verify(arriving(sign(), changes), 'receiver')).toBe('wrong');
  });

  test('is accepted by its receiver only', () => {
    expect(replica().verify(arriving(sign()), 'another')).toBe('wrong');
    expect(replica().verify(arriving(sign()), undefined)).toBe('wrong');
  });

  test('is rejected with another key, and by another installation with the same key', () => {
    expect(replica({ secretKey: Buffer.alloc(32, 8) }).verify(arriving(sign()), 'receiver')).toBe('wrong');
    expect(replica({ installation: 'two' }).verify(arriving(sign()), 'receiver')).toBe('wrong');
  });

  test('is rejected if its caller was changed', () => {
    const [statement = '', mac = ''] = sign().split('.');
    const content = JSON.parse(Buffer.from(statement, 'base64url').toString()) as object;
    const changed = { ...content, identity: { ...IDENTITY, workspaces: null } };
    const forged = `${Buffer.from(JSON.stringify(changed)).toString('base64url')}.${mac}`;
    expect(replica().verify(arriving(forged), 'receiver')).toBe('wrong');
  });

  test('is rejected in another spelling of the same bytes', () => {
    const signature = sign();
    const last = signature.at(-1) as string;
    const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    // The lowest bits of the last character belong to no byte.
    const twin = signature.slice(0, -1) + (ALPHABET[ALPHABET.indexOf(last) ^ 1] as string);
    for (const other of [`${signature}.`, `${signature}.more`, `${signature}=`, `${signature} `, twin, `${signature}!`])
      expect(replica().verify(arriving(other), 'receiver')).toBe('wrong');
  });

  test.each(['', '.', 'a', 'e30.e30', `${'a'.repeat(9_000)}.b`])(
    'is rejected if the signature is malformed: %#',
    (text) => {
      expect(replica().verify(arriving(text), 'receiver')).toBe('wrong');
    },
  );

  test('without a signature it is not from a replica', () => {
    expect(replica().verify(REQUEST, 'receiver')).toBeUndefined();
  });
});
