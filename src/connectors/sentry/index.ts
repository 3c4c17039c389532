import type { Connector } from '../connector.ts';
import { namedIn } from '../kit/scope.ts';
import { createApi } from './api.ts';
import { checkSentry } from './check.ts';
import { fetchIssue } from './fetch.ts';
import { grammar } from './grammar.ts';
import { type Options, options, PUBLIC_HOST, scopeOf } from './options.ts';
import { historyOfIssues, pollIssues, sweepIssues, unitsOf } from './poll.ts';
import { createDirectory, presentProject } from './projects.ts';
import { eventOf, reference, translate } from './translate.ts';
import { verify } from './verify.ts';
import { close, comment } from './write-back.ts';

const MEBIBYTE = 1024 * 1024;

/** Issues of Sentry: groups of like errors. */
export const sentry: Connector<Options> = {
  id: 'sentry',
  title: 'Sentry',
  publicHost: PUBLIC_HOST,
  capabilities: { namesDeliveries: true, workItems: true, supportsAssignees: true },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  options,
  host: (given) => given.host,
  verify,
  translate,
  eventOf,
  unrestricted: (host = PUBLIC_HOST) => options.parse({ host, organization: 'any', projects: ['*'] }),
  reference,
  namesIn: (given) => namedIn(scopeOf(given)),
  connect(given, deps) {
    const api = createApi(given, deps);
    const directory = createDirectory(api, given, deps.clock);
    const lists = { api, directory, options: given };
    return {
      units: (signal) => unitsOf(directory, signal),
      poll: (position, signal) => pollIssues(lists, position, signal),
      identify: (name, signal) => presentProject(api, given, name, signal),
      fetch: (wanted, signal) => fetchIssue(api, { options: given, clock: deps.clock }, wanted, signal),
      check: (signal) => checkSentry(lists, signal),
      history: (position, signal) => historyOfIssues(lists, position, signal),
      sweep: (unit, page, signal) => sweepIssues(lists, { unit, page }, signal),
      comment: (wanted, text, signal) => comment(api, given, wanted, text, signal),
      close: (wanted, signal) => close(api, given, wanted, signal),
    };
  },
};
