import { SyncError } from '../../errors/sync-error.ts';
import type { Connector } from '../connector.ts';
import { namedIn } from '../kit/scope.ts';
import { createApi } from './api.ts';
import { checkBitbucket } from './check.ts';
import { createComment } from './comments.ts';
import { eventOf } from './event-of.ts';
import { fetchPull } from './fetch.ts';
import { grammar } from './grammar.ts';
import { createHooks } from './hooks.ts';
import { HOST, type Options, options, scopeOf, shortestPoll, unrestricted } from './options.ts';
import { pollPulls, readHistory, sweepPulls } from './poll.ts';
import { createRepositories, unitOf } from './repositories.ts';
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
  grammar,
  largestDelivery: LARGEST_DELIVERY,
  options,
  host: () => HOST,
  shortestPoll,
  fetchesCommits: ({ commits }) => commits,
  verify,
  translate,
  unrestricted,
  eventOf,
  reference,
  namesIn: (given) => namedIn(scopeOf(given)),
  unitOf,
  git: createGit,
  connect(given, deps) {
    const api = createApi(given, deps);
    const repositories = createRepositories(api, given, deps.clock);
    return {
      units: repositories.units,
      poll: (position, signal) => pollPulls(api, position, signal),
      identify: (name, signal) => repositories.present(name, signal),
      fetch: (wanted, signal, known) =>
        fetchPull({ api, clock: deps.clock, commits: given.commits, signal, ...known }, wanted),
      check: (signal) => checkBitbucket(api, given, repositories, signal),
      history: (position, signal) => readHistory(api, position, signal),
      sweep: (unit, page, signal) => sweepPulls(api, unit, page, signal),
      hooks: createHooks(api, given, repositories),
      comment: createComment(api),
      async close({ key }) {
        throw new SyncError('refused', `${key}: pull requests are closed by people, at Bitbucket`);
      },
    };
  },
};
