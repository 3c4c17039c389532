import type { Connector } from '../connector.ts';
import { createApi } from './api.ts';
import { checkGithub } from './check.ts';
import { eventOf } from './event-of.ts';
import { fetchPull } from './fetch.ts';
import { grammar } from './grammar.ts';
import { type Options, options, shortestPoll } from './options.ts';
import { pollPulls } from './poll.ts';
import { reference, translate } from './translate.ts';
import { createVerify } from './verify.ts';
import { createGit } from './write.ts';

const MEBIBYTE = 1024 * 1024;

/** GitHub: github.com, hosts under ghe.com, and GitHub Enterprise Server. */
export const github: Connector<Options> = {
  id: 'github',
  title: 'GitHub',
  publicHost: 'github.com',
  capabilities: {
    namesDeliveries: true,
    pullRequests: true,
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
  verify: createVerify(),
  translate,
  eventOf,
  reference,
  git: createGit,
  connect(given, deps) {
    const api = createApi(given, deps);
    return {
      units: async () => given.repositories,
      poll: (position, signal) => pollPulls(api, position, signal),
      fetch: (wanted, signal) => fetchPull(api, deps.clock, wanted, signal),
      check: (signal) => checkGithub(api, given, signal),
    };
  },
};
