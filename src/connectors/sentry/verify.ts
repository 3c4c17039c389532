import { hmacSigning } from '../kit/verify.ts';

/** The secret is the client secret of the integration (SE1). */
export const { verify, sign } = hmacSigning({
  header: 'sentry-hook-signature',
  event: { header: 'sentry-hook-resource' },
  delivery: 'request-id',
});
