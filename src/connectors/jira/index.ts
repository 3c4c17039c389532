import type { z } from 'zod';
import type { Grammar, WorkItem } from '../../model/item.ts';
import { type PostedComment, plainComment } from '../../model/notice.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import type { Translation } from '../connector.ts';
import { closingOf, identityOf, type WebhookFacts } from '../kit/items.ts';
import { readTenant } from '../kit/options.ts';
import { emailsOf, isNamed, nameOf, omitUndefined, read, readable, sorted } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY, hmacSigning } from '../kit/verify.ts';
import { textOfAdf } from './adf.ts';
import { connect } from './connect.ts';
import { type Options, options, scopeOf, siteBase } from './options.ts';
import * as schema from './schema.ts';

/** Jira only reads its keys (JI10). The words are those that people write in front of them at every forge. */
const grammar: Grammar = {
  closing: ['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  closes: 'next',
  names: ['key'],
  addresses: [
    [
      '//{site}/browse/{key}',
      '//{site}/jira/…/{key}',
      '//{site}/projects/{project}/issues/{key}',
      '//{site}/…?selectedIssue={key}',
    ],
  ],
};

export const jira = trackerConnector({
  id: 'jira',
  title: 'Jira',
  publicHost: 'atlassian.net',
  capabilities: {
    namesDeliveries: true,
    pollsSince: true,
    reportsDeletions: true,
    supportsLabels: true,
    supportsAssignees: true,
    closesWithFields: true,
  },
  grammar,
  largestDelivery: 25 * MEBIBYTE,
  options,
  host: ({ cloudId }) => cloudId,
  /** JI2. Only admin webhooks sign so; those that apps register bring a token instead, and are refused. */
  ...hmacSigning({
    header: 'x-hub-signature',
    prefix: 'sha256=',
    delivery: 'x-atlassian-webhook-identifier',
  }),
  eventOf: (payload) => readable(schema.event, payload) && EVENT_IN_BODY,
  samples: async () => (await import('./sample.ts')).samples,
  unrestricted: (host) =>
    options.parse({ site: 'jira.invalid', cloudId: readTenant(host, 'cloud id'), projects: ['*'] }),
  oauth: ({ oauth }) => oauth && { ...oauth, encoding: 'json' },
  noun: 'issues',
  container: {
    word: 'project',
    option: 'projects',
    hint: 'Give the account the permission "Browse projects", or correct projects.',
  },
  scopeOf,
  candidate: placeOf,
  unitBy: 'name',
  itemId: { shape: schema.id, locator: 'issueId', gone: 'id' },
  containerId: { shape: schema.id, locator: 'projectId', gone: 'projectId' },
  identifier: { shape: schema.key, locator: 'issueKey', gone: 'key' },
  parseWebhook,
  found: schema.issue,
  itemOf,
  containerOf: ({ fields }) => placeOf(fields.project),
  order: 'since',
  changedAt: schema.changedAt,
  connect,
});

type Parser = (payload: unknown, options: Options) => WebhookFacts | Translation;

const PARSERS: ReadonlyMap<string, Parser> = new Map<string, Parser>([
  ['jira:issue_created', issueEvent],
  ['jira:issue_updated', issueEvent],
  ['jira:issue_deleted', issueDeleted],
  ['comment_created', commentEvent],
  ['comment_updated', commentEvent],
  ['comment_deleted', commentEvent],
]);

function parseWebhook(payload: unknown, options: Options): WebhookFacts | Translation | undefined {
  return PARSERS.get(read(schema.event, payload).webhookEvent)?.(payload, options);
}

type Named = Partial<z.infer<typeof schema.namedIssue>['issue']> & { readonly id: string };

function named({ id, key: identifier, fields }: Named): WebhookFacts {
  return { id, identifier, container: fields?.project && placeOf(fields.project) };
}

const ISSUE_OF_COMMENT = /\/rest\/api\/\d\/issue\/([1-9]\d{0,15})\/comment\/\d{1,16}$/;

/** A comment changes its issue's time, and contains only a part of it, or its number in an address of its own. */
function commentEvent(payload: unknown): WebhookFacts | Translation {
  const { issue, comment } = read(schema.commentEvent, payload);
  const id = issue?.id ?? ISSUE_OF_COMMENT.exec(comment?.self ?? '')?.[1];
  if (id === undefined) return { outcome: 'ignored', reason: 'not_an_issue' };
  return { ...named({ ...issue, id }), comment: toldComment(payload) };
}

function toldComment(payload: unknown): PostedComment | undefined {
  const comment = readable(schema.toldComment, payload)?.comment;
  return comment && { id: comment.id, author: comment.updateAuthor.accountId, text: plainComment(comment.body) };
}

/**
 * Every such event contains the issue as it was at that time. Its description is wiki text here and a document in the API's
 * answers, so one that is not empty is fetched; e-mail addresses are shown here to more people than there. An issue with a
 * security level is fetched first, because the webhook contains it even if this credential may not see it.
 */
function issueEvent(payload: unknown, options: Options): WebhookFacts {
  const issue = readable(schema.issueEvent, payload)?.issue;
  if (!issue) return named(read(schema.namedIssue, payload).issue);
  if (readable(schema.restricted, payload)) return named(issue);
  const { emails: _, ...item } = itemOf(issue, options);
  return { ...named(issue), item: { ...item, ...omitUndefined({ formerIdentifiers: formerKeys(payload) }) } };
}

function formerKeys(payload: unknown): readonly string[] | undefined {
  const items = readable(schema.moved, payload)?.changelog.items ?? [];
  const keys = items.flatMap(({ field, fromString }) =>
    field === 'Key' && fromString !== undefined ? [fromString] : [],
  );
  return keys.length === 0 ? undefined : keys;
}

/** Jira reports when it sent the event, which is later than the last change. */
function issueDeleted(payload: unknown): WebhookFacts {
  const event = readable(schema.issueDeleted, payload);
  if (!event) return named(read(schema.namedIssue, payload).issue);
  const { updated } = event.issue.fields;
  const goneAt = Math.max(event.timestamp, updated === undefined ? 0 : Date.parse(updated));
  return { ...named(event.issue), goneAt };
}

function placeOf({ id, key: name, archived }: Pick<schema.Project, 'id' | 'key' | 'archived'>) {
  return { id, name, archived };
}

function itemOf({ id, key: identifier, fields }: schema.JiraIssue, options: Options): WorkItem {
  const { project, status, assignee, reporter, creator } = fields;
  const author = reporter === undefined ? creator : reporter;
  const state = status?.statusCategory && STATES.get(status.statusCategory.key);
  return {
    ...identityOf('jira', options.cloudId, { id, container: project.id, identifier }),
    updatedAt: Date.parse(fields.updated),
    containerName: project.key,
    url: `${siteBase(options)}/browse/${identifier}`,
    ...omitUndefined({
      title: fields.summary,
      description: descriptionOf(fields.description),
      state,
      ...closingOf(state, {
        isDropped: isDropped(fields.resolution, options),
        closedAt: fields.resolutiondate ?? fields.statuscategorychangedate,
      }),
      rawState: status?.name,
      type: nameOf(fields.issuetype),
      priority: nameOf(fields.priority),
      labels: sorted(fields.labels),
      assignees: assignee === undefined ? undefined : assignee === null ? [] : [assignee.accountId],
      author: author === null ? null : author?.accountId,
      isBot: author?.accountType === undefined ? undefined : author.accountType === 'app',
      emails: emailsOf([assignee, author].map((person) => [person?.accountId, person?.emailAddress])),
      createdAt: fields.created,
      phaseChangedAt: fields.statuscategorychangedate ?? undefined,
    }),
  };
}

/** Jira has three categories of statuses and one for those without; people name the statuses. */
const STATES: ReadonlyMap<string, NonNullable<WorkItem['state']>> = new Map([
  ['undefined', 'open'],
  ['new', 'open'],
  ['indeterminate', 'in_progress'],
  ['done', 'done'],
]);

/** Resolutions have no category, so their names decide (JI9). */
function isDropped(resolution: schema.JiraIssue['fields']['resolution'], { dropped }: Options): boolean | undefined {
  if (resolution === undefined) return undefined;
  return resolution !== null && dropped.some((each) => isNamed(resolution.name, each));
}

/** Wiki text cannot be compared with the description of the API; an empty one is empty in both. */
function descriptionOf(given: schema.JiraIssue['fields']['description']): string | null | undefined {
  if (typeof given === 'string') return given.trim() === '' ? null : undefined;
  if (given === undefined) return undefined;
  return given === null ? null : textOfAdf(given) || null;
}
