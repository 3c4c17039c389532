import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { gitConnector } from '../kit/git.ts';
import { connect } from './connect.ts';
import { eventOf } from './event-of.ts';
import { grammar } from './grammar.ts';
import { kinds, parseWebhook, payloadOf } from './items.ts';
import { hasCredential, options, PUBLIC_HOST, scopeOf, shortestPoll, unrestricted } from './options.ts';
import { verify } from './verify.ts';
import { writes } from './writes.ts';

/** GitHub: github.com, hosts under ghe.com, and GitHub Enterprise Server. */
export const github = gitConnector({
  id: 'github',
  title: 'GitHub',
  publicHost: PUBLIC_HOST,
  capabilities: {
    namesDeliveries: true,
    workItems: true,
    supportsLabels: true,
    supportsAssignees: true,
    supportsReviewers: true,
    supportsDraft: true,
    reopensClosed: true,
  },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: (given) => given.host,
  shortestPoll,
  fetchesReviews: hasCredential,
  exclusive: ({ host, app }) => app && `GitHub App ${app.id} of ${host}`,
  verify,
  unrestricted,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  container: 'repository',
  scopeOf,
  kinds,
  withIssues: ({ issues }) => issues,
  parseWebhook,
  parsePayload: payloadOf,
  writes,
  connect,
});
