import { expect, it } from 'vitest';
import { mayBeCut } from '../../../src/model/delivery.ts';

it.each([
  [50, null, true],
  [1_000, null, true],
  [0, null, false],
  [49, null, false],
  [50, true, false],
  [50, false, false],
])('a list of %i with isLast %s may be cut: %s', (length, isLast, expected) => {
  expect(mayBeCut(length, isLast)).toBe(expected);
});
