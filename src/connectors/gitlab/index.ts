import type { Connector } from '../connector.ts';
import { namedIn } from '../kit/scope.ts';
import { createApi } from './api.ts';
import { checkGitlab } from './check.ts';
import { eventOf } from './event-of.ts';
import { fetchItem } from './fetch.ts';
import { grammar } from './grammar.ts';
import { readHistory, sweepUnit } from './history.ts';
import { createHooks } from './hooks.ts';
import { createLists } from './lists.ts';
import { type Options, options, PUBLIC_HOST, scopeOf, unrestricted } from './options.ts';
import { pollUnit } from './poll.ts';
import { createProjects } from './projects.ts';
import { createRedeliver } from './redeliver.ts';
import { reference, translate } from './translate.ts';
import { unitsOf } from './units.ts';
import { verify } from './verify.ts';
import { createGit } from './write.ts';
import { closeIssue, writeComment } from './write-back.ts';

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
  fetchesCommits: ({ commits }) => commits,
  verify,
  translate,
  eventOf,
  reference,
  namesIn: (given) => namedIn(scopeOf(given)),
  git: createGit,
  unrestricted,
  connect(given, deps) {
    const api = createApi(given, deps);
    const projects = createProjects(api, given, deps.clock);
    const lists = createLists(api, projects, given);
    return {
      units: async () => unitsOf(given),
      poll: (position, signal) => pollUnit(lists, position, signal),
      identify: (name, signal) => projects.present(name, signal),
      fetch: (wanted, signal, known) =>
        fetchItem({ api, clock: deps.clock, commits: given.commits, signal, ...known }, wanted),
      check: (signal) => checkGitlab(api, given, deps.clock.now(), signal),
      history: (position, signal) => readHistory(lists, position, signal),
      sweep: (unit, page, signal) => sweepUnit(lists, projects, given, { unit, page }, signal),
      redeliver: createRedeliver({ api, projects, options: given, clock: deps.clock }),
      hooks: createHooks(api, projects, given),
      comment: (wanted, comment, signal) => writeComment(api, wanted, comment, signal),
      close: (wanted, signal) => closeIssue(api, wanted, signal),
    };
  },
};
