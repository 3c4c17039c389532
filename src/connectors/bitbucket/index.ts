import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { gitConnector } from '../kit/git.ts';
import { connect } from './connect.ts';
import { eventOf } from './event-of.ts';
import { grammar } from './grammar.ts';
import { kinds, parseWebhook } from './items.ts';
import { HOST, options, scopeOf, shortestPoll, unrestricted } from './options.ts';
import { unitOf } from './repositories.ts';
import { verify } from './verify.ts';
import { writes } from './writes.ts';

/** Bitbucket Cloud: bitbucket.org. Bitbucket Data Center is another product with another API. */
export const bitbucket = gitConnector({
  id: 'bitbucket',
  title: 'Bitbucket Cloud',
  publicHost: HOST,
  capabilities: { pollsSince: true, supportsReviewers: true, supportsDraft: true },
  grammar,
  /** Bitbucket sends no payload above 256 KB; this leaves room in case it raises that. */
  largestDelivery: MEBIBYTE,
  options,
  host: () => HOST,
  shortestPoll,
  verify,
  unrestricted,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  container: 'repository',
  scopeOf,
  unitOf,
  kinds,
  parseWebhook,
  writes,
  connect,
});
