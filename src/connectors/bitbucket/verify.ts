import { hmacSigning } from '../kit/verify.ts';

/**
 * `X-Hub-Signature` (Bitbucket Cloud, "Manage webhooks": secure webhooks). Its prefix tells the algorithm: other vendors send
 * SHA-1 in this header, which is no proof here.
 *
 * There is no delivery id. Bitbucket sends a failed delivery again with the same bytes, so intake recognises it by their
 * SHA-256. Bitbucket does not document that `X-Request-UUID` stays the same; if it changes, each attempt would count as a new
 * delivery. Two deliveries with equal bytes say the same about the same pull request: one of them is enough.
 */
export const { verify, sign } = hmacSigning({
  header: 'x-hub-signature',
  prefix: 'sha256=',
  event: { header: 'x-event-key', form: /^[A-Za-z0-9_:-]{1,100}$/ },
});
