import type { Grammar } from '../../model/link.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { readTenant } from '../kit/options.ts';
import { readable } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY, hmacSigning } from '../kit/verify.ts';
import { connect } from './connect.ts';
import { itemOf, parseWebhook, placeOf } from './items.ts';
import { options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** Jira only reads its keys (JI10). The words are those that people write in front of them at every forge. */
const grammar: Grammar = {
  closing: ['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  closes: 'next',
  names: ['key'],
  addresses: [
    [
      '//{site}/browse/{key}',
      '//{site}/jira/…/{key}',
      '//{site}/projects/{project}/issues/{key}',
      '//{site}/…?selectedIssue={key}',
    ],
  ],
};

export const jira = trackerConnector({
  id: 'jira',
  title: 'Jira',
  publicHost: 'atlassian.net',
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    reportsDeletions: true,
    supportsLabels: true,
    supportsAssignees: true,
    closesWithFields: true,
  },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: ({ cloudId }) => cloudId,
  /** JI2. Only admin webhooks sign so; those that apps register bring a token instead, and are refused. */
  ...hmacSigning({
    header: 'x-hub-signature',
    prefix: 'sha256=',
    delivery: 'x-atlassian-webhook-identifier',
  }),
  eventOf: (payload) => readable(schema.event, payload) && EVENT_IN_BODY,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host) =>
    options.parse({ site: 'jira.invalid', cloudId: readTenant(host, 'cloud id'), projects: ['*'] }),
  oauth: ({ oauth }) => oauth && { ...oauth, encoding: 'json' },
  noun: 'issues',
  container: {
    word: 'project',
    option: 'projects',
    hint: 'Give the account the permission "Browse projects", or correct projects.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'name',
  itemId: { shape: schema.id, locator: 'issueId', gone: 'id' },
  containerId: { shape: schema.id, locator: 'projectId', gone: 'projectId' },
  identifier: { shape: schema.key, locator: 'issueKey', gone: 'key' },
  parseWebhook,
  found: schema.issue,
  itemOf,
  containerOf: ({ fields }) => placeOf(fields.project),
  order: 'since',
  changedAt: schema.changedAt,
  connect,
});
