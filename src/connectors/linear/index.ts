import type { Connector } from '../connector.ts';
import { addressOf, namedIn } from '../kit/scope.ts';
import { readTenant } from '../kit/tenants.ts';
import { createApi } from './api.ts';
import { checkLinear } from './check.ts';
import { fetchIssue } from './fetch.ts';
import { grammar } from './grammar.ts';
import { hooksOf } from './hooks.ts';
import { type Options, options, scopeOf } from './options.ts';
import { historyOfIssues, pollIssues, sweepIssues } from './poll.ts';
import { readTeam, unitsOf } from './teams.ts';
import { eventOf, reference, translate } from './translate.ts';
import { verify } from './verify.ts';
import { close, comment } from './write-back.ts';

const MEBIBYTE = 1024 * 1024;

export const linear: Connector<Options> = {
  id: 'linear',
  title: 'Linear',
  publicHost: 'linear.app',
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    reportsDeletions: true,
    workItems: true,
    supportsLabels: true,
    supportsAssignees: true,
  },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  accepted: 200,
  options,
  host: (given) => given.organizationId,
  verify,
  translate,
  eventOf,
  unrestricted: (host) => options.parse({ organizationId: readTenant(host, "organisation's id"), teams: ['*'] }),
  reference,
  namesIn: (given) => namedIn(scopeOf(given)),
  oauth: ({ oauth }) => oauth && { ...oauth, encoding: 'form' },
  connect(given, deps) {
    const api = createApi(given, deps);
    const units = unitsOf(api, given, deps.clock);
    return {
      units,
      poll: (position, signal) => pollIssues(api, position, signal),
      identify: async (name, signal) => {
        const { id, key } = await readTeam(api, name, signal);
        return { id, name: key };
      },
      fetch: (wanted, signal) => fetchIssue(api, deps.clock, wanted, signal),
      check: (signal) => checkLinear(api, given, units, signal),
      history: (position, signal) => historyOfIssues(api, position, signal),
      sweep: (unit, page, signal) => sweepIssues(api, given.organizationId, unit, page, signal),
      comment: (wanted, text, signal) => comment(api, wanted, text, signal),
      close: (wanted, signal) => close(api, wanted, given.doneStatus, signal),
      hooks: hooksOf(api, async (signal) => (await units(signal)).map((unit) => addressOf(unit, scopeOf(given)))),
    };
  },
};
