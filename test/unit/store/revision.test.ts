import { expect, it } from 'vitest';
import { currentRevision, nextRevision } from '../../../src/store/revision.ts';
import { openTestStore } from '../../support/intake.ts';

it('gives each request the next revision, and begins at 1', async () => {
  const { query } = await openTestStore();
  expect(await currentRevision(query)).toBe(0);
  expect([await nextRevision(query), await nextRevision(query)]).toEqual([1, 2]);
  expect(await currentRevision(query)).toBe(2);
});
