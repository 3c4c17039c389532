import { afterEach } from 'vitest';
import { surprises } from '../vendors/vendor-requests/surprises.ts';
import { fixSeed } from './depth.ts';

fixSeed();

/** Runs before each test file: whatever asks a vendor, what is not documented fails its test. */
afterEach(() => {
  const found = surprises.splice(0);
  if (found.length > 0) throw new Error(found.join('\n'));
});
