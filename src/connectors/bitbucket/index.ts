import { gitConnector } from '../kit/git.ts';
import { connect } from './connect.ts';
import { eventOf } from './event-of.ts';
import { grammar } from './grammar.ts';
import { kinds, told } from './items.ts';
import { HOST, options, scopeOf, shortestPoll, unrestricted } from './options.ts';
import { unitOf } from './repositories.ts';
import { verify } from './verify.ts';
import { writes } from './writes.ts';

const MEBIBYTE = 1024 * 1024;

/** Bitbucket Cloud: bitbucket.org. Bitbucket Data Center is another product with another API. */
export const bitbucket = gitConnector({
  id: 'bitbucket',
  title: 'Bitbucket Cloud',
  publicHost: HOST,
  capabilities: { pollsSince: true, pullRequests: true, supportsReviewers: true, supportsDraft: true },
  grammar,
  /** Payloads above 256 KB are never sent; there is room for that to be raised. */
  largestDelivery: MEBIBYTE,
  options,
  host: () => HOST,
  shortestPoll,
  verify,
  unrestricted,
  eventOf,
  container: 'repository',
  scopeOf,
  unitOf,
  kinds,
  told,
  writes,
  connect,
});
