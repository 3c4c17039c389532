import { createHash, createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { hmacOf, sha256Of } from '../../../../src/platform/lib/digest.ts';

/** Both ways of working say the same, also of a part of a larger buffer. */
test.each([0, 1, 1024 * 1024, 1024 * 1024 + 1, 3_000_000])('digests of %i bytes', async (length) => {
  const body = Buffer.alloc(length + 10, 'some bytes ').subarray(5, 5 + length);
  const key = Buffer.from('a key of the test');
  expect((await hmacOf(body, key)).toString('hex')).toBe(createHmac('sha256', key).update(body).digest('hex'));
  expect(await sha256Of(body)).toBe(createHash('sha256').update(body).digest('hex'));
});
