import { hmacSigning } from '../kit/verify.ts';

/** SH1. */
export const { verify, sign } = hmacSigning({ header: 'payload-signature' });
