import { afterEach, expect } from 'vitest';
import { surprises } from '../vendors/vendor-requests/surprises.ts';
import { fixSeed } from './depth.ts';

fixSeed();

// Vitest itself compares the bytes of buffers as properties of objects, which takes seconds for some megabytes.
expect.addEqualityTesters([
  (one: unknown, other: unknown) =>
    Buffer.isBuffer(one) && Buffer.isBuffer(other) ? Buffer.compare(one, other) === 0 : undefined,
]);

/** Runs before each test file: whatever asks a vendor, what is not documented fails its test. */
afterEach(() => {
  const found = surprises.splice(0);
  if (found.length > 0) throw new Error(found.join('\n'));
});
