import type { Connector } from '../connector.ts';
import { namedIn } from '../kit/scope.ts';
import { readTenant } from '../kit/tenants.ts';
import { createApi } from './api.ts';
import { checkJira } from './check.ts';
import { fetchIssue } from './fetch.ts';
import { hooksOf } from './hooks.ts';
import { type Options, options, scopeOf } from './options.ts';
import { historyOfIssues, pollIssues, sweepIssues } from './poll.ts';
import { readProject, unitsOf } from './projects.ts';
import { eventOf, reference, translate } from './translate.ts';
import { verify } from './verify.ts';
import { close, comment } from './write-back.ts';

const MEBIBYTE = 1024 * 1024;

/** Jira Cloud. */
export const jira: Connector<Options> = {
  id: 'jira',
  title: 'Jira',
  publicHost: 'atlassian.net',
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    reportsDeletions: true,
    workItems: true,
    supportsLabels: true,
    supportsAssignees: true,
  },
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: (given) => given.cloudId,
  verify,
  translate,
  eventOf,
  unrestricted: (host) =>
    options.parse({ site: 'jira.invalid', cloudId: readTenant(host, 'cloud id'), projects: ['*'] }),
  reference,
  namesIn: (given) => namedIn(scopeOf(given)),
  oauth: ({ oauth }) => oauth && { ...oauth, encoding: 'json' },
  connect(given, deps) {
    const api = createApi(given, deps);
    const units = unitsOf(api, given, deps.clock);
    return {
      units,
      poll: (position, signal) => pollIssues(api, position, signal),
      identify: async (name, signal) => {
        const { id, key } = await readProject(api, name, signal);
        return { id, name: key };
      },
      fetch: (wanted, signal) => fetchIssue(api, deps.clock, wanted, signal),
      check: (signal) => checkJira(api, given, units, signal),
      history: (position, signal) => historyOfIssues(api, position, signal),
      sweep: (unit, page, signal) => sweepIssues(api, given.cloudId, unit, page, signal),
      comment: (wanted, text, signal) => comment(api, wanted, text, signal),
      close: (wanted, signal) => close(api, wanted, given.doneStatus, signal),
      hooks: hooksOf(api, given),
    };
  },
};
