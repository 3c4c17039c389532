import { compressSync } from 'lz4-napi';
import { expect, test } from 'vitest';
import { LARGE } from '../../../src/platform/lib/large.ts';
import { packBody, packBodyAsync, unpackBody } from '../../../src/store/bodies.ts';

test.each<[bytes: number, isCompressed: boolean]>([
  [0, false],
  [4_095, false],
  [4_096, true],
  [LARGE, true],
  [LARGE + 1, true],
])('compresses a body of %j bytes: %j, and restores it', async (bytes, isCompressed) => {
  const body = Buffer.from('much the same '.repeat(bytes / 14 + 1).slice(0, bytes));
  for (const stored of [packBody(body), await packBodyAsync(body)]) {
    expect(stored.unpacked_length).toBe(isCompressed ? bytes : null);
    expect(stored.body.length < bytes / 2).toBe(isCompressed);
    expect(unpackBody(stored).equals(body)).toBe(true);
  }
});

test.each<[what: string, body: Buffer, length: number]>([
  ['is shorter than its length', Buffer.from([1, 2, 3]), 4],
  ['is empty', Buffer.alloc(0), 0],
  ['claims another length', compressSync(Buffer.from('abc')), 4],
])('rejects a block that %s before it allocates memory', (_what, body, unpacked_length) => {
  expect(() => unpackBody({ body, unpacked_length })).toThrow('the stored body is damaged');
});

test('restores an empty block', () => {
  expect(unpackBody({ body: compressSync(Buffer.alloc(0)), unpacked_length: 0 })).toEqual(Buffer.alloc(0));
});
