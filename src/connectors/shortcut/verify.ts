import { hmacSigning } from '../kit/hmac.ts';

/** SH1. */
export const { verify, sign } = hmacSigning({ header: 'payload-signature' });
