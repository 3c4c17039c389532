import { hmacSigning } from '../kit/verify.ts';

/** JI2. Only admin webhooks sign so; those that apps register bring a token instead, and are refused. */
export const { verify, sign } = hmacSigning({
  header: 'x-hub-signature',
  prefix: 'sha256=',
  delivery: 'x-atlassian-webhook-identifier',
});
