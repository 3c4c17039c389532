import { afterEach } from 'vitest';

/** Requests of this file that a vendor does not document: also those whose failure the code under test passed over. */
export const surprises: string[] = [];

afterEach(() => {
  const found = surprises.splice(0);
  if (found.length > 0) throw new Error(found.join('\n'));
});
