import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { KEPT } from '../sim/mutants/unobservable.ts';
import { TOP } from '../support/processes.ts';

test('each mistake that is said to change nothing could still be made', () => {
  const stale = KEPT.filter(({ file, text }) => {
    const code = readFileSync(join(TOP, file), 'utf8').replaceAll(/\s+/g, ' ');
    return !code.includes(text);
  });
  expect(stale).toEqual([]);
});
