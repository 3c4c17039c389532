import { SyncError } from '../../model/errors.ts';
import type { WorkItem } from '../../model/item.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Connector, VerifiedRequest, WebhookRequest } from '../connector.ts';
import { referenceOf } from '../kit/items.ts';
import { namedIn } from '../kit/scope.ts';
import {
  checkStandardWebhook,
  EVENT_IN_BODY,
  nameInHeader,
  requireSecrets,
  requireText,
  signingTokenProblem,
  standardSignature,
} from '../kit/verify.ts';
import { connect } from './connect.ts';
import { type Options, options, scopeOf } from './options.ts';
import { eventOf, PARTS, translate } from './translate.ts';

/** Standard Webhooks, as standardwebhooks.com has it: every secret is a signing token, `whsec_…`. */
async function verify(request: WebhookRequest, secrets: readonly string[], now: number): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  if (request.headers['webhook-signature'] === undefined)
    throw new SyncError('signature_missing', 'the request has no webhook-signature header');
  await checkStandardWebhook(request, secrets, now);
  requireText(request.body);
  return { event: EVENT_IN_BODY, deliveryId: nameInHeader(request, 'webhook-id') };
}

/** Everything that has no connector of its own, in a shape that the README of this folder describes. */
export const generic: Connector<Options> = {
  id: 'generic',
  title: 'Generic',
  publicHost: 'generic',
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    reportsDeletions: true,
    workItems: true,
    supportsLabels: true,
    supportsAssignees: true,
  },
  largestDelivery: MEBIBYTE,
  options,
  host: (given) => given.system,
  secretProblem: signingTokenProblem,
  verify,
  sign: standardSignature,
  translate,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host = 'generic') => options.parse({ system: host }),
  reference: (item) => referenceOf(PARTS, item as WorkItem),
  namesIn: (given) => namedIn(scopeOf(given)),
  connect,
};
