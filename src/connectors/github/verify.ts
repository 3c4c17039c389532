import { hmacSigning } from '../kit/verify.ts';

/** `X-Hub-Signature-256` (GitHub, "Validating webhook deliveries"); the older SHA-1 header is ignored. */
export const { verify, sign } = hmacSigning({
  header: 'x-hub-signature-256',
  prefix: 'sha256=',
  event: { header: 'x-github-event' },
  delivery: 'x-github-delivery',
});
