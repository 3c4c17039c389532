import type { Grammar } from '../../model/item.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { gitConnector } from '../kit/git.ts';
import { hmacSigning } from '../kit/verify.ts';
import { unitOf } from './api.ts';
import { connect } from './connect.ts';
import { eventOf, kinds, parseWebhook } from './items.ts';
import { HOST, options, scopeOf, shortestPoll, unrestricted } from './options.ts';
import { writes } from './writes.ts';

/** The words that close an item of another tracker. worksync does not read the issues of Bitbucket's own tracker. */
const grammar: Grammar = {
  closing: [
    ...['close', 'closes', 'closed', 'closing'],
    ...['fix', 'fixes', 'fixed', 'fixing'],
    ...['resolve', 'resolves', 'resolved', 'resolving'],
  ],
  closes: 'next',
  names: [],
};

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
  /**
   * `X-Hub-Signature` (Bitbucket Cloud, "Manage webhooks": secure webhooks). Its prefix names the algorithm: other vendors send
   * SHA-1 in this header, which is no proof here.
   *
   * There is no delivery id. Bitbucket sends a failed delivery again with the same bytes, so intake recognises it by their
   * SHA-256. Bitbucket does not document that `X-Request-UUID` stays the same; if it changes, each attempt would count as a new
   * delivery. Two deliveries with equal bytes say the same about the same pull request: one of them is enough.
   */
  ...hmacSigning({
    header: 'x-hub-signature',
    prefix: 'sha256=',
    event: { header: 'x-event-key', form: /^[A-Za-z0-9_:-]{1,100}$/ },
  }),
  unrestricted,
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  container: 'repository',
  scopeOf,
  unitOf,
  kinds,
  fetchesCommits: ({ commits }) => commits,
  parseWebhook,
  writes,
  connect,
});
