import type { Connector } from '../connector.ts';
import { createApi } from './api.ts';
import { checkBitbucket } from './check.ts';
import { fetchPull } from './fetch.ts';
import { HOST, type Options, options, shortestPoll } from './options.ts';
import { pollPulls } from './poll.ts';
import { reference, translate } from './translate.ts';
import { verify } from './verify.ts';
import { createGit } from './write.ts';

/** Payloads above 256 KB are never sent; there is room for that to be raised. */
const LARGEST_DELIVERY = 1024 * 1024;

/** Bitbucket Cloud: bitbucket.org. Bitbucket Data Center is another product with another API. */
export const bitbucket: Connector<Options> = {
  id: 'bitbucket',
  title: 'Bitbucket Cloud',
  publicHost: HOST,
  capabilities: {
    pollsSince: true,
    pullRequests: true,
    supportsReviewers: true,
    supportsDraft: true,
  },
  largestDelivery: LARGEST_DELIVERY,
  options,
  host: () => HOST,
  shortestPoll,
  verify,
  translate,
  reference,
  git: createGit,
  connect(given, deps) {
    const api = createApi(given, deps);
    return {
      units: async () => given.repositories,
      poll: (position, signal) => pollPulls(api, position, signal),
      fetch: (wanted, signal) => fetchPull(api, deps.clock, wanted, signal),
      check: (signal) => checkBitbucket(api, given, signal),
    };
  },
};
