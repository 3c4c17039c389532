import type { Grammar } from '../../model/link.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { readable } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY, hmacSigning } from '../kit/verify.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { foundOn, idsOf, itemOf, parseWebhook, placeOf } from './items.ts';
import { hostOf, options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/**
 * The words that Redmine understands by default: `refs #12`, `references #12, #13`, `IssueID #12` (RM3). Numbers are unique over
 * all projects, but other systems use the same sign, so a number alone names nothing. Closing words differ by site, and there are
 * none by default.
 */
const grammar: Grammar = {
  closing: [],
  mentioning: ['refs', 'references', 'issueid'],
  closes: 'list',
  names: ['host-number'],
  needsWord: true,
  addresses: [['//{host}/issues/{number}']],
};

/** There is no public Redmine: this host is used if a payload names none. */
const ANY_HOST = 'redmine.invalid';

/** Redmine, which everybody runs themselves. */
export const redmine = trackerConnector({
  id: 'redmine',
  title: 'Redmine',
  publicHost: ANY_HOST,
  capabilities: {
    pollsSince: true,
    reportsDeletions: true,
    supportsAssignees: true,
  },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  options,
  host: hostOf,
  /** RM1. A webhook without a secret is not signed, and refused. Deliveries have no id. */
  ...hmacSigning({ header: 'x-redmine-signature-256', prefix: 'sha256=' }),
  eventOf: (payload) => readable(schema.event, payload) && EVENT_IN_BODY,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host = ANY_HOST) => options.parse({ url: `https://${host}`, projects: ['*'] }),
  noun: 'issues',
  container: {
    word: 'project',
    option: 'projects',
    hint: 'Give the user a role in the projects, or correct projects.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'name',
  itemId: { shape: schema.number, locator: 'issueId', gone: 'id' },
  containerId: { shape: schema.number, locator: 'projectId', gone: 'projectId' },
  identifier: (id) => `#${id}`,
  parseWebhook,
  found: schema.fetched,
  itemsOnPage: foundOn,
  itemOf,
  containerOf: ({ issue, project }) =>
    project?.id === issue.project.id ? placeOf(project) : { id: String(issue.project.id), name: '' },
  needsScopeCheck: ({ project }) => project !== undefined,
  containerShape: schema.project,
  order: 'fixed',
  changedAt: (issue) => timeOf(issue, 'updated_on'),
  idsOf,
  connect,
});
