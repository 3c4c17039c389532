import type { Grammar, WorkItem } from '../../model/item.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { closingOf, identityOf, type WebhookFacts } from '../kit/items.ts';
import { omitUndefined, read, readable } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { hmacSigning } from '../kit/verify.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { type Options, options, PUBLIC_HOST, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** `Fixes MYAPP-317, MYAPP-318` in a commit, a title or a description (SE4). */
export const grammar: Grammar = {
  closing: ['fix', 'fixes', 'fixed', 'close', 'closes', 'closed', 'resolve', 'resolves', 'resolved'],
  closes: 'list',
  names: ['short-id'],
  needsWord: true,
  addresses: [
    [
      '//{organization}.sentry.io/issues/{number}',
      '//{organization}.sentry.io/issues/{number}/…',
      '//sentry.io/organizations/{organization}/issues/{number}/…',
    ],
    [
      '//{host}/organizations/{organization}/issues/{number}',
      '//{host}/organizations/{organization}/issues/{number}/…',
    ],
  ],
};

/** Issues of Sentry: groups of like errors. */
export const sentry = trackerConnector({
  id: 'sentry',
  title: 'Sentry',
  publicHost: PUBLIC_HOST,
  capabilities: { namesDeliveries: true, supportsAssignees: true },
  grammar,
  largestDelivery: 5 * MEBIBYTE,
  options,
  host: ({ host }) => host,
  /** The secret is the client secret of the integration (SE1). */
  ...hmacSigning({
    header: 'sentry-hook-signature',
    event: { header: 'sentry-hook-resource' },
    delivery: 'request-id',
  }),
  eventOf,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host = PUBLIC_HOST) => options.parse({ host, organization: 'any', projects: ['*'] }),
  noun: 'issues',
  container: {
    word: 'project',
    option: 'projects',
    hint: 'Give the integration the right project:read, or correct projects.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'name',
  itemId: { shape: schema.id, locator: 'id', gone: 'id' },
  containerId: { shape: schema.id, locator: 'projectId', gone: 'projectId' },
  identifier: { shape: schema.shortId, locator: 'shortId', gone: 'shortId' },
  follows: (event) => event === EVENT,
  parseWebhook,
  requiredFields: ['state', 'title', 'url'],
  found: schema.issue,
  itemOf,
  containerOf: ({ project }) => placeOf(project),
  order: 'newest first',
  changedAt: (issue) => timeOf(issue, 'lastSeen'),
  connect,
});

/** `Sentry-Hook-Resource` of what is followed. Comments change nothing that is kept of an issue. */
const EVENT = 'issue';

/** Pure: what an issue's webhook carries is known by its shape. */
function eventOf(payload: unknown): string | undefined {
  return readable(schema.issueEvent, payload) && EVENT;
}

/**
 * Every such event carries the issue as it was at that time, whatever happened to it. A payload that has drifted still names the
 * issue it is about. Throws `delivery_malformed`.
 */
function parseWebhook(payload: unknown, options: Options): WebhookFacts {
  const event = readable(schema.issueEvent, payload);
  const issue = event?.data.issue;
  const { id, shortId: identifier, project } = issue ?? read(schema.namedIssue, payload).data.issue;
  const named = { id, identifier, container: project ? placeOf(project) : undefined };
  if (!issue) return named;
  // The time is that of the last occurrence, which what follows does not move.
  return { ...named, item: { ...itemOf(issue, options), ...(event.action === 'created' && { isCreation: true }) } };
}

function placeOf({ id, slug: name }: schema.Project) {
  return { id, name };
}

/**
 * Sentry keeps no time of the last change: `lastSeen` is that of the last event. Two contents of one such time are doubtful,
 * and what is fetched then decides.
 */
function itemOf(found: schema.SentryIssue, options: Options): WorkItem {
  const { id, shortId, project, status, substatus, assignedTo, culprit } = found;
  const state = status === undefined ? undefined : STATES.get(status);
  return {
    ...identityOf('sentry', options.host, { id, container: project.id, identifier: shortId }),
    updatedAt: Date.parse(found.lastSeen),
    containerName: project.slug,
    ...omitUndefined({
      url: (found.permalink ?? found.web_url)?.split(/[?#]/, 1)[0],
      title: found.title,
      description: culprit === undefined ? undefined : culprit || null,
      state,
      // Sentry does not report when an issue was closed.
      isDropped: closingOf(state, { isDropped: status === 'ignored' }).isDropped,
      rawState: status && (substatus ? `${status} (${substatus})` : status),
      type: found.type,
      priority: found.priority,
      labels: found.level === undefined ? undefined : [found.level],
      assignees: assignedTo === undefined ? undefined : assignedTo === null ? [] : [nameOf(assignedTo)],
      emails: assignedTo?.email === undefined ? undefined : { [nameOf(assignedTo)]: assignedTo.email },
      createdAt: found.firstSeen,
    }),
  };
}

/** Archived is done: nobody should work on it. When it escalates, Sentry opens it again. */
const STATES: ReadonlyMap<string, NonNullable<WorkItem['state']>> = new Map([
  ['unresolved', 'open'],
  ['resolved', 'done'],
  ['resolvedInNextRelease', 'done'],
  ['ignored', 'done'],
]);

/** People and teams are counted apart. */
function nameOf({ id, type }: NonNullable<schema.SentryIssue['assignedTo']>): string {
  return type === 'team' ? `team:${id}` : id;
}
