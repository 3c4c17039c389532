import { expect, it } from 'vitest';
import { unreachableHint } from '../../../../src/platform/http/unreachable-hint.ts';

it.each([
  ['ENOTFOUND', /DNS knows no such name/],
  ['EAI_AGAIN', /DNS does not answer/],
  ['ECONNREFUSED', /Nothing listens/],
  ['UND_ERR_CONNECT_TIMEOUT', /firewalls/],
  ['EHOSTUNREACH', /firewalls/],
  ['CERT_HAS_EXPIRED', /has expired: renew/],
  ['CERT_NOT_YET_VALID', /clock/],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', /NODE_EXTRA_CA_CERTS/],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', /NODE_EXTRA_CA_CERTS/],
  ['ERR_TLS_CERT_ALTNAME_INVALID', /another host name/],
  ['CERT_REVOKED', /revoked/],
  ['ERR_SSL_WRONG_VERSION_NUMBER', /agree on no TLS/],
])('%s has a remedy of its own', (code, hint) => {
  expect(unreachableHint(Object.assign(new Error('x'), { code }))).toMatch(hint);
});

it('what is not known keeps the remedy of its code', () => {
  expect(unreachableHint(new Error('x'))).toBeUndefined();
  expect(unreachableHint(Object.assign(new Error('x'), { code: 'E_NEW' }))).toBeUndefined();
});
