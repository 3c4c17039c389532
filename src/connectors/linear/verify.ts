import { hmacSigning } from '../kit/verify.ts';

/**
 * LI1. The time that is signed stands in the body, which is not read here. A request that is sent again later is harmless: it
 * has an older state of an issue than worksync knows, and is superseded.
 */
export const { verify, sign } = hmacSigning({
  header: 'linear-signature',
  event: { header: 'linear-event' },
  delivery: 'linear-delivery',
});
