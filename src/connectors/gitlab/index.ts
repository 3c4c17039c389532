import type { Connector } from '../connector.ts';
import { createApi } from './api.ts';
import { checkGitlab } from './check.ts';
import { eventOf } from './event-of.ts';
import { fetchMergeRequest } from './fetch.ts';
import { type Options, options, PUBLIC_HOST } from './options.ts';
import { pollMergeRequests } from './poll.ts';
import { reference, translate } from './translate.ts';
import { verify } from './verify.ts';
import { createGit } from './write.ts';

const MEBIBYTE = 1024 * 1024;

/** GitLab: gitlab.com and self-managed servers. */
export const gitlab: Connector<Options> = {
  id: 'gitlab',
  title: 'GitLab',
  publicHost: PUBLIC_HOST,
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    pullRequests: true,
    supportsLabels: true,
    supportsAssignees: true,
    supportsReviewers: true,
    supportsDraft: true,
    reopensClosed: true,
  },
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: (given) => given.host,
  verify,
  translate,
  eventOf,
  reference,
  git: createGit,
  connect(given, deps) {
    const api = createApi(given, deps);
    return {
      units: async () => given.projects,
      poll: (position, signal) => pollMergeRequests(api, position, signal),
      fetch: (wanted, signal) => fetchMergeRequest(api, deps.clock, wanted, signal),
      check: (signal) => checkGitlab(api, given, deps.clock.now(), signal),
    };
  },
};
