import type { Connector } from '../connector.ts';
import { namedIn } from '../kit/scope.ts';
import { readTenant } from '../kit/tenants.ts';
import { createApi } from './api.ts';
import { checkAzure } from './check.ts';
import { fetchWorkItem } from './fetch.ts';
import { grammar } from './grammar.ts';
import { hooksOf } from './hooks.ts';
import { type Options, options, scopeOf } from './options.ts';
import { historyOfWorkItems, pollWorkItems, sweepWorkItems } from './poll.ts';
import { createDirectory, readProject } from './projects.ts';
import { eventOf, reference, translate } from './translate.ts';
import { verify } from './verify.ts';
import { close, comment } from './write-back.ts';

const MEBIBYTE = 1024 * 1024;

/** Azure Boards of Azure DevOps Services. */
export const azureBoards: Connector<Options> = {
  id: 'azure-boards',
  title: 'Azure Boards',
  publicHost: 'dev.azure.com',
  capabilities: {
    pollsSince: true,
    reportsDeletions: true,
    workItems: true,
    supportsLabels: true,
    supportsAssignees: true,
  },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: (given) => given.organizationId,
  verify,
  translate,
  eventOf,
  unrestricted: (host) => {
    const organizationId = readTenant(host, "organisation's id");
    return options.parse({ organization: 'any', organizationId, projects: ['*'] });
  },
  reference,
  namesIn: (given) => namedIn(scopeOf(given)),
  connect(given, deps) {
    const api = createApi(given, deps);
    const directory = createDirectory(api, given, deps.clock);
    const { organizationId, doneStatus } = given;
    return {
      units: (signal) => directory.units(signal),
      poll: (position, signal) => pollWorkItems(api, directory, position, signal),
      identify: (name, signal) => readProject(api, name, signal),
      fetch: (wanted, signal) => fetchWorkItem(api, directory, deps.clock, wanted, signal),
      check: (signal) => checkAzure(api, given, directory, signal),
      history: (position, signal) => historyOfWorkItems(api, directory, position, signal),
      sweep: (unit, page, signal) => sweepWorkItems(api, directory, organizationId, { unit, page }, signal),
      comment: (wanted, text, signal) => comment(api, wanted, text, signal),
      close: (wanted, signal) => close(api, directory, wanted, doneStatus, signal),
      hooks: hooksOf(api, given, directory),
    };
  },
};
