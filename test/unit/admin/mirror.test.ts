import { expect, it } from 'vitest';
import { describeMirror } from '../../../src/admin/mirror.ts';

it.each([
  [['off', 'off'], 'open', null, 'here', 'here only: mirror is off'],
  [['off', 'auto'], 'open', null, 'workspace', 'in the workspace'],
  [['auto'], 'closed', 'not_found: why', 'here', 'here only: the workspace has no route to record them'],
  [['record'], 'closed', null, 'here', 'here only: the workspace has no route to record them'],
  [['auto'], 'unknown', null, 'unknown', 'here so far: the workspace has not said whether it records them'],
  [
    ['auto'],
    'unknown',
    'server_failed: why',
    'unknown',
    'here so far: the workspace has not said whether it records them (server_failed: why)',
  ],
] as const)('%j with the route %s: %s', (modes, state, error, place, message) => {
  expect(describeMirror(modes, { records: { state, error } })).toEqual({ place, message });
});
