import type { Connector } from '../connector.ts';
import { namedIn } from '../kit/scope.ts';
import { createApi } from './api.ts';
import { checkRedmine } from './check.ts';
import { fetchIssue } from './fetch.ts';
import { grammar } from './grammar.ts';
import { hostOf, type Options, options, scopeOf } from './options.ts';
import { historyOfIssues, pollIssues, sweepIssues } from './poll.ts';
import { readProject, unitsOf } from './projects.ts';
import { createStatuses } from './statuses.ts';
import { eventOf, reference, translate } from './translate.ts';
import { verify } from './verify.ts';
import { close, createComment } from './write-back.ts';

const MEBIBYTE = 1024 * 1024;
/** There is no Redmine that everybody uses: this one stands for all where a payload does not tell. */
const ANY_HOST = 'redmine.invalid';

/** Redmine, which everybody runs themselves. */
export const redmine: Connector<Options> = {
  id: 'redmine',
  title: 'Redmine',
  publicHost: ANY_HOST,
  capabilities: {
    pollsSince: true,
    reportsDeletions: true,
    workItems: true,
    supportsAssignees: true,
  },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  options,
  host: hostOf,
  verify,
  translate,
  eventOf,
  unrestricted: (host = ANY_HOST) => options.parse({ url: `https://${host}`, projects: ['*'] }),
  reference,
  namesIn: (given) => namedIn(scopeOf(given)),
  connect(given, deps) {
    const api = createApi(given, deps);
    const units = unitsOf(api, given, deps.clock);
    const statuses = createStatuses(api, deps.clock);
    const { clock } = deps;
    return {
      units,
      poll: (position, signal) => pollIssues(api, statuses, position, signal),
      identify: async (name, signal) => {
        const { id, identifier } = await readProject(api, name, signal);
        return { id: String(id), name: identifier };
      },
      fetch: (wanted, signal) => fetchIssue(api, { statuses, clock }, wanted, signal),
      check: (signal) => checkRedmine(api, given, units, signal),
      history: (position, signal) => historyOfIssues(api, statuses, position, signal),
      sweep: (unit, page, signal) => sweepIssues(api, given, { unit, page }, signal),
      comment: createComment(api, given),
      close: (wanted, signal) => close(api, given, wanted, signal),
    };
  },
};
