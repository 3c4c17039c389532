import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { gitConnector } from '../kit/git.ts';
import { connect } from './connect.ts';
import { eventOf } from './event-of.ts';
import { grammar } from './grammar.ts';
import { isFetchedFollowed, kinds, parseWebhook } from './items.ts';
import { options, PUBLIC_HOST, scopeOf, unrestricted } from './options.ts';
import { verify } from './verify.ts';
import { writes } from './writes.ts';

/** GitLab: gitlab.com and self-managed servers. */
export const gitlab = gitConnector({
  id: 'gitlab',
  title: 'GitLab',
  publicHost: PUBLIC_HOST,
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
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
  fetchesReviews: ({ token }) => token !== undefined,
  verify,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted,
  container: 'project',
  scopeOf,
  kinds,
  withIssues: ({ issues }) => issues,
  parseWebhook,
  isInScope: isFetchedFollowed,
  writes,
  connect,
});
