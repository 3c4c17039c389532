import { hmacSigning } from '../kit/verify.ts';

/** RM1. A webhook without a secret is not signed, and refused. Deliveries have no id. */
export const { verify, sign } = hmacSigning({ header: 'x-redmine-signature-256', prefix: 'sha256=' });
