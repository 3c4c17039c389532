import { expect, it } from 'vitest';
import type { ShownPlan } from '../../../src/admin/plan.ts';
import { describePlan } from '../../../src/cli/plan.ts';

const EMPTY: ShownPlan = {
  id: 'abc',
  writes: [],
  requests: 0,
  drainedAt: 0,
  entities: [],
  mirror: { state: 'here', message: 'here only' } as unknown as ShownPlan['mirror'],
  unread: [],
};

it('does not promise that nothing is written before everything was read', () => {
  expect(describePlan(EMPTY, 0)).toBe('plan abc: nothing would be written\n  pull requests: here only');
  expect(describePlan({ ...EMPTY, unread: ['the workspace', 'main'] }, 0).split('\n')).toEqual([
    'plan abc: nothing is known to be written yet',
    '  pull requests: here only',
    '  not read yet: the workspace, main; more writes may follow',
  ]);
});
