import { SyncError } from '../../model/errors/sync-error.ts';
import type { Grammar } from '../../model/link.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { VerifiedRequest, WebhookRequest } from '../connector.ts';
import { readTenant } from '../kit/options.ts';
import { readable } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY, requireSecrets, requireText, signatureMismatch, singleHeader } from '../kit/verify.ts';
import { connect } from './connect.ts';
import { itemOf, parseWebhook } from './items.ts';
import { options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** The header of subscriptions that send a header of their own. */
const HEADER = 'x-worksync-secret';
const BASIC = /^Basic ([A-Za-z0-9+/]{1,4000}={0,2})$/;

/**
 * Proves that Azure DevOps sent the request. It signs nothing: a service hook repeats the password that its
 * subscription was made with, as HTTP Basic authentication or as a header of its own (AZ1). Every live secret is
 * compared, in constant time; a user name is not looked at. `Authorization`, where it is sent, decides alone.
 *
 * The id of the event stands in the body too: the bytes themselves tell a repetition.
 */
async function verify(request: WebhookRequest, secrets: readonly string[]): Promise<VerifiedRequest> {
  requireSecrets(secrets);
  const given = passwordOf(request);
  let valid = false;
  for (const secret of secrets) valid = isSameSecret(given, secret) || valid;
  if (!valid) throw new SyncError('signature_mismatch', 'the password does not match');
  requireText(request.body);
  return { event: EVENT_IN_BODY };
}

function passwordOf(request: WebhookRequest): string {
  const { headers } = request;
  if (headers['authorization'] === undefined && headers[HEADER] === undefined)
    throw new SyncError('signature_missing', `the request has neither Authorization nor ${HEADER}`);
  if (headers['authorization'] === undefined) {
    const own = singleHeader(request, HEADER);
    if (own === undefined) throw signatureMismatch('is not one password');
    return own;
  }
  const encoded = BASIC.exec(singleHeader(request, 'authorization') ?? '')?.[1];
  const decoded = encoded === undefined ? '' : Buffer.from(encoded, 'base64').toString('utf8');
  const colon = decoded.indexOf(':');
  if (colon === -1) throw signatureMismatch('is not one of HTTP Basic authentication');
  return decoded.slice(colon + 1);
}

/** In a list behind one word only the first is closed (AZ4). */
export const grammar: Grammar = {
  closing: ['fix', 'fixes', 'fixed'],
  closes: 'next',
  names: ['AB#'],
  addresses: [
    [
      '//dev.azure.com/{organization}/_workitems/edit/{number}',
      ...['//dev.azure.com/{organization}', '//{organization}.visualstudio.com'].flatMap((place) => [
        `${place}/…/_workitems/edit/{number}`,
        `${place}/…/_workitems?id={number}`,
        `${place}/…?workitem={number}`,
      ]),
    ],
  ],
};

/** Azure Boards of Azure DevOps Services. */
export const azureBoards = trackerConnector({
  id: 'azure-boards',
  title: 'Azure Boards',
  publicHost: 'dev.azure.com',
  capabilities: { pollsSince: true, reportsDeletions: true, supportsLabels: true, supportsAssignees: true },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: ({ organizationId }) => organizationId,
  verify,
  sign: (_body, secret) => ({ authorization: `Basic ${Buffer.from(`worksync:${secret}`).toString('base64')}` }),
  eventOf: (payload) => readable(schema.serviceHook, payload) && EVENT_IN_BODY,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host) => {
    const organizationId = readTenant(host, "organisation's id");
    return options.parse({ organization: 'any', organizationId, projects: ['*'] });
  },
  noun: 'workitems',
  container: {
    word: 'project',
    option: 'projects',
    hint: 'Give its account access to them, or correct projects.',
  },
  scopeOf,
  candidate: (project) => project,
  unitBy: 'id',
  itemId: { shape: schema.number, locator: 'id', gone: 'id' },
  containerId: { shape: schema.projectId, locator: 'projectId', gone: 'projectId' },
  identifier: (id) => id,
  parseWebhook,
  found: schema.workItem,
  itemOf,
  containerOf: ({ project }) => project,
  order: 'since',
  changedAt: schema.changedAt,
  isDone: schema.isDone,
  connect,
});
