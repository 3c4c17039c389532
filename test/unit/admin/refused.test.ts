import { expect, it } from 'vitest';
import { reasonOf } from '../../../src/admin/refused.ts';

const OF_WORKSPACE = /^The key or the signature .* workspace\.webhook/;
const OF_PROVIDER = /provider/;

it.each([
  ['a missing key', 'signature_missing', 401, '/webhooks/team/workspace', OF_WORKSPACE],
  ['a wrong key', 'signature_mismatch', 401, '/webhooks/team/workspace', OF_WORKSPACE],
  ['a wrong key of a verification, which has no body', 'http_401', 401, '/webhooks/team/workspace', OF_WORKSPACE],
  ['a missing signature of a vendor', 'signature_missing', 401, '/webhooks/team/github', OF_PROVIDER],
  ['an unknown address', 'not_found', 404, '/webhooks/team/workspace', /^No workspace or connection/],
])('names what to correct for %s', (_what, code, status, path, reason) => {
  expect(reasonOf({ code, status, path })).toMatch(reason);
});
