import type { z } from 'zod';
import { plainComment, type StandingComment } from '../../model/comment.ts';
import type { Delivery } from '../../model/delivery.ts';
import { type Item, type ItemKey, type ItemReference, type WorkItem, workItemKey } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readable, readJson } from '../kit/json.ts';
import { itemsOrReferences, NOT_FOUND, UNJUDGED, withComment } from '../kit/outcome.ts';
import { inScope } from '../kit/scope.ts';
import { textOfAdf } from './adf.ts';
import { type Options, scopeOf, siteBase } from './options.ts';
import * as schema from './schema.ts';
import { EVENT } from './verify.ts';

/** The connector's own names of what polls and fetches bring. */
export const SHAPES = {
  list: 'issues.list',
  issue: 'issues.get',
  gone: 'issues.gone',
  judged: 'issues.judged',
  missing: 'issues.missing',
} as const;

type Translator = (payload: unknown, options: Options) => Translation;

/** By what the body calls itself. */
const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['jira:issue_created', issueEvent],
  ['jira:issue_updated', issueEvent],
  ['jira:issue_deleted', issueDeleted],
  ['comment_created', commentEvent],
  ['comment_updated', commentEvent],
  ['comment_deleted', commentEvent],
]);

/** Pages and fetched objects were asked for, so they are in scope, also after a move to another project. */
const OF_READ: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  [SHAPES.list, list],
  [SHAPES.issue, fetched],
  [SHAPES.gone, gone],
  [SHAPES.judged, judged],
  [SHAPES.missing, () => NOT_FOUND],
]);

const NOT_FOLLOWED = { outcome: 'ignored', reason: 'event_not_followed' } as const;

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation {
  if (delivery.source === 'webhook') {
    if (delivery.event !== EVENT) return NOT_FOLLOWED;
    const payload = readJson(delivery.body);
    const { webhookEvent } = read(schema.event, payload);
    return OF_WEBHOOK.get(webhookEvent)?.(payload, options) ?? NOT_FOLLOWED;
  }
  const translateIt = OF_READ.get(delivery.event);
  return translateIt ? translateIt(readJson(delivery.body), options) : NOT_FOLLOWED;
}

/** Pure: what Jira posts names its event, whatever it is about. */
export function eventOf(payload: unknown): string | undefined {
  return readable(schema.event, payload) && EVENT;
}

/** What `fetch` needs to get this item. */
export function reference(item: Item): ItemReference {
  const { key, containerId, identifier } = item as WorkItem;
  return referenceTo(key, key.slice(key.lastIndexOf(':') + 1), containerId, identifier);
}

/** The project and the key are for one that is gone: nothing else can be asked for them then. */
function referenceTo(key: ItemKey, issueId: string, projectId: string, issueKey: string): ItemReference {
  return { kind: 'work_item', key, locator: { issueId, projectId, issueKey } };
}

type Project = schema.JiraIssue['fields']['project'];

type Named = Partial<z.infer<typeof schema.namedIssue>['issue']> & { readonly id: string };

/** What an event is about, where it carries no more of it; without its project, what is fetched tells whether it is followed. */
function namedIssue({ id, key: issueKey, fields }: Named, options: Options): Translation {
  const { key } = identity({ id, key: '' }, '', options);
  const project = fields?.project;
  if (project && issueKey !== undefined) {
    const references = [referenceTo(key, id, project.id, issueKey)];
    return outOfScope(project, options) ?? { outcome: 'references', references };
  }
  return { outcome: 'references', references: [{ kind: 'work_item', key, locator: { issueId: id, ...UNJUDGED } }] };
}

const ISSUE_OF_COMMENT = /\/rest\/api\/\d\/issue\/([1-9]\d{0,15})\/comment\/\d{1,16}$/;

/** A comment changes its issue's time, and carries only a part of it, or its number in an address of its own. */
function commentEvent(payload: unknown, options: Options): Translation {
  const { issue, comment } = read(schema.commentEvent, payload);
  const id = issue?.id ?? ISSUE_OF_COMMENT.exec(comment?.self ?? '')?.[1];
  if (id === undefined) return { outcome: 'ignored', reason: 'not_an_issue' };
  return withComment(namedIssue({ ...issue, id }, options), toldComment(payload));
}

function toldComment(payload: unknown): StandingComment | undefined {
  const told = readable(schema.toldComment, payload)?.comment;
  return told && { id: told.id, author: told.updateAuthor.accountId, text: plainComment(told.body) };
}

function outOfScope({ id, key }: Project, options: Options): Translation | undefined {
  if (inScope({ id, name: key }, scopeOf(options))) return undefined;
  return { outcome: 'ignored', reason: 'project_not_in_scope' };
}

/**
 * Every such event carries the issue as it was at that time. Its description is wiki text here and a document in the
 * API's answers, so one that is not empty is fetched; e-mail addresses are shown here to more people than there.
 */
function issueEvent(payload: unknown, options: Options): Translation {
  const issue = readable(schema.issueEvent, payload)?.issue;
  if (!issue) return namedIssue(read(schema.namedIssue, payload).issue, options);
  const { emails: _, ...item } = itemOf(issue, options);
  return outOfScope(issue.fields.project, options) ?? itemsOrReferences([item], isWhole, reference);
}

/** Jira tells when it sent the event: later than the last change. */
function issueDeleted(payload: unknown, options: Options): Translation {
  const event = readable(schema.issueDeleted, payload);
  if (!event) return namedIssue(read(schema.namedIssue, payload).issue, options);
  const { issue, timestamp } = event;
  const { project, updated } = issue.fields;
  const updatedAt = Math.max(timestamp, updated === undefined ? 0 : Date.parse(updated));
  const item = { ...identity(issue, project.id, options), updatedAt, gone: true };
  return outOfScope(project, options) ?? { outcome: 'items', items: [item] };
}

/** Taken as they are, also with fields absent: asking once more would bring the same. */
function list(payload: unknown, options: Options): Translation {
  const found = read(schema.issue.array(), payload);
  return { outcome: 'items', items: found.map((each) => itemOf(each, options)) };
}

function fetched(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [itemOf(read(schema.issue, payload), options)] };
}

/** One of which an event told without naming its project. */
function judged(payload: unknown, options: Options): Translation {
  const issue = read(schema.issue, payload);
  return outOfScope(issue.fields.project, options) ?? { outcome: 'items', items: [itemOf(issue, options)] };
}

function gone(payload: unknown, options: Options): Translation {
  const { projectId, seenAt, ...issue } = read(schema.gone, payload);
  const item = { ...identity(issue, projectId, options), updatedAt: Date.parse(seenAt), gone: true };
  return { outcome: 'items', items: [item] };
}

function isWhole(item: WorkItem): boolean {
  return [item.state, item.title, item.description].every((field) => field !== undefined);
}

function itemOf(found: schema.JiraIssue, options: Options): WorkItem {
  const { key, fields } = found;
  const { project, status, assignee, reporter, creator } = fields;
  const author = reporter === undefined ? creator : reporter;
  return {
    ...identity(found, project.id, options),
    updatedAt: Date.parse(fields.updated),
    containerName: project.key,
    url: `${siteBase(options)}/browse/${key}`,
    ...present({
      title: fields.summary,
      description: descriptionOf(fields.description),
      state: status?.statusCategory && STATES.get(status.statusCategory.key),
      rawState: status?.name,
      type: nameOf(fields.issuetype),
      priority: nameOf(fields.priority),
      labels: sorted(fields.labels),
      assignees: assignee === undefined ? undefined : assignee === null ? [] : [assignee.accountId],
      author: author === null ? null : author?.accountId,
      emails: emailsOf([assignee, author]),
      createdAt: fields.created,
    }),
  };
}

/** The id stays when an issue is moved, and its key then changes. */
function identity({ id, key: identifier }: Pick<schema.JiraIssue, 'id' | 'key'>, containerId: string, given: Options) {
  const host = given.cloudId;
  const key = workItemKey('jira', host, id);
  return { kind: 'work_item' as const, key, connector: 'jira', host, containerId, identifier };
}

/** Jira has three categories of statuses and one for those that have none; people name the statuses. */
const STATES: ReadonlyMap<string, NonNullable<WorkItem['state']>> = new Map([
  ['undefined', 'open'],
  ['new', 'open'],
  ['indeterminate', 'in_progress'],
  ['done', 'done'],
]);

/** Wiki text cannot be compared with what the API says of the same description; one without a word is none in both. */
function descriptionOf(given: schema.JiraIssue['fields']['description']): string | null | undefined {
  if (typeof given === 'string') return given.trim() === '' ? null : undefined;
  if (given === undefined) return undefined;
  return given === null ? null : textOfAdf(given) || null;
}

function nameOf(given: { readonly name: string } | null | undefined): string | null | undefined {
  return given === null ? null : given?.name;
}

type Person = schema.JiraIssue['fields']['assignee'];

/** By account id, for those who show their address. */
function emailsOf(people: readonly Person[]): Readonly<Record<string, string>> | undefined {
  const told = people.flatMap((person) => (person?.emailAddress ? [[person.accountId, person.emailAddress]] : []));
  return told.length === 0 ? undefined : (Object.fromEntries(told) as Record<string, string>);
}
