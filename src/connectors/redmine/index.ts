import type { Grammar, WorkItem } from '../../model/item.ts';
import { type PostedComment, plainComment } from '../../model/notice.ts';
import { MEBIBYTE } from '../../platform/lib/quantities.ts';
import { closingOf, identityOf, SCOPE_UNKNOWN, type WebhookFacts } from '../kit/items.ts';
import { isNamed, nameOf, omitUndefined, parseAnswer, read, readable } from '../kit/payload.ts';
import { trackerConnector } from '../kit/tracker.ts';
import { EVENT_IN_BODY, hmacSigning } from '../kit/verify.ts';
import { timeOf } from '../kit/walk.ts';
import { connect } from './connect.ts';
import { baseOf, hostOf, type Options, options, scopeOf } from './options.ts';
import * as schema from './schema.ts';
import { textOfTextile } from './textile.ts';

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

const FOLLOWED = new Set(['issue.created', 'issue.updated', 'issue.deleted']);

/**
 * A webhook has only the number and title of the project, and uses the rights of its creator: worksync reads the issue, and
 * checks whether its project is followed. Throws `delivery_malformed`.
 */
function parseWebhook(payload: unknown): WebhookFacts | undefined {
  if (!FOLLOWED.has(read(schema.event, payload).type)) return undefined;
  const { id, project } = read(schema.issueEvent, payload).data.issue;
  const container = project ? { id: String(project.id) } : undefined;
  return { id: String(id), container, ...SCOPE_UNKNOWN, comment: toldNote(payload) };
}

function toldNote(payload: unknown): PostedComment | undefined {
  const journal = readable(schema.noted, payload)?.data.journal;
  return journal && { author: String(journal.user.id), text: plainComment(journal.notes) };
}

/** The status of an archived project, of which nothing can be read. */
const ARCHIVED = 9;

function placeOf({ id, identifier, status }: schema.Project & Partial<schema.ListedProject>) {
  return { id: String(id), name: identifier, archived: status === ARCHIVED };
}

/** Returns the issues of a page, each with the statuses beside them. Throws `delivery_malformed`. */
function foundOn(payload: unknown): readonly schema.Fetched[] {
  const { issues, statuses } = read(schema.list, payload);
  return issues.map((issue) => ({ issue, statuses }));
}

function idsOf(found: readonly unknown[], what: string, options: Options): readonly string[] {
  const shown = found.filter((issue) => !isHidden(parseAnswer(schema.privacy, issue, what), options));
  return shown.map((issue) => String(schema.numberOf(issue, what)));
}

/** An issue that became private is hidden: here it is gone, without its content. */
function itemOf(found: schema.Fetched, options: Options): WorkItem {
  const { issue } = found;
  if (!isHidden(issue, options)) return shown(found, options);
  return { ...identity(issue, options), updatedAt: Date.parse(issue.updated_on), gone: true };
}

/** Everybody in the workspace would see a private issue. */
function isHidden({ is_private }: Pick<schema.RedmineIssue, 'is_private'>, options: Options): boolean {
  return is_private === true && !options.private;
}

function shown({ issue: found, statuses, project: container }: schema.Fetched, options: Options) {
  const { id, project, assigned_to: assignee, author } = found;
  const state = stateOf(found.status, statuses, options);
  const isDropped = found.status && isAmong(options.dropped, found.status);
  const item: WorkItem = {
    ...identity(found, options),
    updatedAt: Date.parse(found.updated_on),
    url: `${baseOf(options)}/issues/${id}`,
    ...omitUndefined({
      containerName: project.name,
      title: found.subject,
      description: descriptionOf(found.description, options),
      state,
      ...closingOf(state, { isDropped, closedAt: found.closed_on }),
      rawState: found.status?.name,
      type: nameOf(found.tracker),
      priority: nameOf(found.priority),
      assignees: assignee === undefined ? undefined : assignee === null ? [] : [String(assignee.id)],
      author: author === undefined ? undefined : author === null ? null : String(author.id),
      createdAt: found.created_on,
      isPublic: container?.is_public,
    }),
  };
  return item;
}

function identity({ id, project }: Pick<schema.RedmineIssue, 'id' | 'project'>, options: Options) {
  const known = { id: String(id), container: String(project.id), identifier: `#${id}` };
  return identityOf('redmine', hostOf(options), known);
}

/** Absent if it is unknown whether the status is a closed one. */
function stateOf(
  status: schema.RedmineIssue['status'],
  statuses: readonly schema.Status[] | undefined,
  { inProgress }: Options,
): WorkItem['state'] {
  if (status === undefined) return undefined;
  const isClosed = status.is_closed ?? statuses?.find(({ id }) => id === status.id)?.is_closed;
  if (isClosed === undefined) return undefined;
  if (isClosed) return 'done';
  return isAmong(inProgress, status) ? 'in_progress' : 'open';
}

/** `closed_on` stays after a reopening (RM4); `closingOf` leaves it out then. */
function isAmong(names: readonly string[], { name }: { readonly name: string }): boolean {
  return names.some((each) => isNamed(name, each));
}

function descriptionOf(given: string | null | undefined, { formatting }: Options): string | null | undefined {
  if (given === undefined) return undefined;
  const text = formatting === 'textile' ? textOfTextile(given ?? '') : (given ?? '').replace(/\r\n?/g, '\n').trim();
  return text === '' ? null : text;
}
