import fc from 'fast-check';
import { expect, it } from 'vitest';
import { secretKeyOf } from '../../../../src/platform/config/tokens.ts';
import { systemRandom } from '../../../../src/platform/lib/clock.ts';
import { createSecretBox, parseSecretKey, SealError } from '../../../../src/platform/lib/secret-box.ts';

const random = systemRandom();
const key = random.bytes(32);
const box = createSecretBox(key, random);

it('opens what it sealed, for the same place', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (plain, place) => {
      const wellFormed = plain.toWellFormed();
      const sealed = box.seal(wellFormed, place.toWellFormed());
      expect(box.open(sealed, place.toWellFormed())).toBe(wellFormed);
    }),
  );
});

it('shows nothing of the text, and never seals the same way twice', () => {
  const sealed = [box.seal('ghp_token', 'row'), box.seal('ghp_token', 'row')];
  expect(sealed[0]).not.toBe(sealed[1]);
  expect(Buffer.from(sealed[0]!.slice(3), 'base64url').toString('latin1')).not.toContain('ghp_token');
});

it('refuses another row', () => {
  expect(() => box.open(box.seal('ghp_token', 'token:ada'), 'token:bob')).toThrow(SealError);
});

it('refuses a text in which any one bit was changed [A20]', () => {
  const bytes = Buffer.from(box.seal('ghp_token', 'row').slice(3), 'base64url');
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const changed = Buffer.from(bytes);
    changed[bit >> 3]! ^= 1 << (bit & 7);
    expect(() => box.open(`v1.${changed.toString('base64url')}`, 'row')).toThrow(SealError);
  }
});

it.each([
  ['base64', key.toString('base64')],
  ['base64url', key.toString('base64url')],
  ['hex', key.toString('hex')],
])('reads a key in %s', (_what, text) => {
  expect(parseSecretKey(text)).toEqual(key);
});

it.each([
  ['31 bytes', Buffer.alloc(31).toString('base64')],
  ['a word', 'correct horse battery staple'],
])('reads no key of %s', (_what, text) => {
  expect(parseSecretKey(text)).toBeUndefined();
});

it('takes the key of the environment, and says what is wrong with it without showing it', () => {
  expect(secretKeyOf({})).toBeUndefined();
  expect(secretKeyOf({ WORKSYNC_SECRET_KEY: key.toString('hex') })?.key).toEqual(key);
  const wrong = Buffer.alloc(16, 7).toString('base64');
  const read = () => secretKeyOf({ WORKSYNC_SECRET_KEY: wrong });
  expect(read).toThrow(expect.objectContaining({ code: 'config_invalid', hint: expect.stringContaining('openssl') }));
  expect(read).not.toThrow(wrong);
});
