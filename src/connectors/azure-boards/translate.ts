import { SyncError } from '../../errors/sync-error.ts';
import { plainComment, type StandingComment } from '../../model/comment.ts';
import type { Delivery } from '../../model/delivery.ts';
import { type Item, type ItemReference, type WorkItem, workItemKey } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readable, readJson } from '../kit/json.ts';
import { NOT_FOUND, UNJUDGED, withComment } from '../kit/outcome.ts';
import { inScope } from '../kit/scope.ts';
import { textOfHtml } from './html.ts';
import { type Options, scopeOf, webBase } from './options.ts';
import * as schema from './schema.ts';
import { EVENT } from './verify.ts';

/** The connector's own names of what polls and fetches bring. */
export const SHAPES = {
  list: 'workitems.list',
  workItem: 'workitems.get',
  gone: 'workitems.gone',
  judged: 'workitems.judged',
  missing: 'workitems.missing',
} as const;

const FOLLOWED = new Set([
  'workitem.created',
  'workitem.updated',
  'workitem.deleted',
  'workitem.restored',
  'workitem.commented',
]);

type Translator = (payload: unknown, options: Options) => Translation;

/** Pages and fetched objects were asked for, so they are in scope, also after a move to another project. */
const OF_READ: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  [SHAPES.list, list],
  [SHAPES.workItem, fetched],
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
    const { eventType } = read(schema.event, payload);
    return FOLLOWED.has(eventType) ? workItemEvent(payload, eventType, options) : NOT_FOLLOWED;
  }
  const translateIt = OF_READ.get(delivery.event);
  return translateIt ? translateIt(readJson(delivery.body), options) : NOT_FOLLOWED;
}

/** Pure: what service hooks post names its event, whatever it is about. */
export function eventOf(payload: unknown): string | undefined {
  return readable(schema.serviceHook, payload) && EVENT;
}

/** What `fetch` needs to get this item. */
export function reference(item: Item): ItemReference {
  const { key, containerId, identifier } = item as WorkItem;
  return { kind: 'work_item', key, locator: { id: identifier, projectId: containerId } };
}

/**
 * No event tells enough: states have names that each process chooses, and only the API knows what they mean; a
 * subscription may send no fields at all. So each of them says which work item to look at, also the one that deletes it.
 */
function workItemEvent(payload: unknown, eventType: string, options: Options): Translation {
  if (isTest(payload)) return { outcome: 'ignored', reason: 'test_delivery' };
  const { resource, resourceContainers } = read(schema.workItemEvent, payload);
  const { id: own, workItemId = resource.revision?.id } = resource;
  const id = eventType === 'workitem.updated' ? workItemId : (own ?? workItemId);
  if (id === undefined) throw new SyncError('delivery_malformed', 'resource: names no work item');
  const projectId = resourceContainers?.project?.id;
  const told = resource.revision?.fields ?? resource.fields;
  if (projectId !== undefined && !mayBeMeant(projectId, told?.['System.TeamProject'], options))
    return { outcome: 'ignored', reason: 'project_not_in_scope' };
  const { key } = identity(id, projectId ?? '', options);
  const locator = { id: String(id), ...(projectId === undefined ? UNJUDGED : { projectId }) };
  const references = [{ kind: 'work_item', key, locator } as const];
  return withComment({ outcome: 'references', references }, toldComment(payload, eventType));
}

/** What changed more than that a comment was written is news, whoever wrote it. */
function toldComment(payload: unknown, eventType: string): StandingComment | undefined {
  if (eventType === 'workitem.commented') {
    const fields = readable(schema.commented, payload)?.resource.fields;
    return fields && asWritten(fields['System.ChangedBy'].id, fields['System.History']);
  }
  const told = eventType === 'workitem.updated' ? readable(schema.changed, payload)?.resource : undefined;
  if (!told || Object.keys(told.fields).some((field) => !schema.OF_EVERY_REVISION.has(field))) return undefined;
  return asWritten(told.revisedBy.id, told.fields['System.History'].newValue);
}

function asWritten(author: string, html: string): StandingComment {
  return { author, text: plainComment(textOfHtml(html)) };
}

const NIL = '00000000-0000-0000-0000-000000000000';
/** The project of every sample in the reference of service hooks, which the button "Test" sends. */
const SAMPLE_PROJECT = 'be9b3917-87e6-42a4-a549-2bc06a7a878f';

/** What the button "Test" sends is the sample of the documents: of no subscription, of that project, or of work item 0. */
function isTest(payload: unknown): boolean {
  const told = readable(schema.testEvent, payload);
  if (!told) return false;
  const { subscriptionId, resource, resourceContainers } = told;
  const isNothing = resource?.workItemId === 0 || resource?.id === 0;
  return isNothing || subscriptionId === NIL || resourceContainers?.project?.id === SAMPLE_PROJECT;
}

/** Where the project's name is not told, names and patterns are given the benefit of the doubt. */
function mayBeMeant(id: string, name: string | undefined, options: Options): boolean {
  return name === undefined || inScope({ id, name }, scopeOf(options));
}

function list(payload: unknown, options: Options): Translation {
  const found = read(schema.workItem.array(), payload);
  return { outcome: 'items', items: found.map((each) => itemOf(each, options)) };
}

function fetched(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [itemOf(read(schema.workItem, payload), options)] };
}

/** One of which an event told without naming its project. */
function judged(payload: unknown, options: Options): Translation {
  const found = read(schema.workItem, payload);
  if (!inScope(found.project, scopeOf(options))) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  return { outcome: 'items', items: [itemOf(found, options)] };
}

function gone(payload: unknown, options: Options): Translation {
  const { id, projectId, seenAt } = read(schema.gone, payload);
  const item = { ...identity(id, projectId, options), updatedAt: Date.parse(seenAt), gone: true };
  return { outcome: 'items', items: [item] };
}

function itemOf(found: schema.AzureWorkItem, options: Options): WorkItem {
  const { fields, project, category } = found;
  const { 'System.AssignedTo': assignee, 'System.CreatedBy': author } = fields;
  const { 'System.Tags': tags, 'Microsoft.VSTS.Common.Priority': priority } = fields;
  return {
    ...identity(found.id, project.id, options),
    updatedAt: Date.parse(fields['System.ChangedDate']),
    version: found.rev,
    containerName: project.name,
    url: `${webBase(options)}/${encodeURIComponent(project.name)}/_workitems/edit/${found.id}`,
    ...(fields['System.IsDeleted'] === true ? { gone: true } : {}),
    ...present({
      title: fields['System.Title'],
      description: descriptionOf(found),
      state: category === undefined ? undefined : STATES.get(category),
      rawState: fields['System.State'],
      type: fields['System.WorkItemType'],
      priority: typeof priority === 'number' ? String(priority) : priority,
      labels: tags === undefined ? undefined : sorted(tagsOf(tags ?? '')),
      assignees: assignee === null ? [] : assignee && [assignee.id],
      author: author === null ? null : author?.id,
      emails: emailsOf([assignee, author]),
      createdAt: fields['System.CreatedDate'],
    }),
  };
}

/** Numbers are counted over the whole organisation, and stay when a work item is moved. */
function identity(id: number, containerId: string, { organizationId }: Options) {
  const host = organizationId;
  const identifier = String(id);
  const key = workItemKey('azure-boards', host, identifier);
  return { kind: 'work_item' as const, key, connector: 'azure-boards', host, containerId, identifier };
}

/** Resolved is done but not yet proved to be: what waits for that is still in progress. */
const STATES: ReadonlyMap<string, NonNullable<WorkItem['state']>> = new Map([
  ['Proposed', 'open'],
  ['InProgress', 'in_progress'],
  ['Resolved', 'in_progress'],
  ['Completed', 'done'],
  ['Removed', 'done'],
]);

function descriptionOf({ fields, multilineFieldsFormat }: schema.AzureWorkItem): string | null | undefined {
  const given = fields['System.Description'];
  if (typeof given !== 'string') return given;
  const isMarkdown = multilineFieldsFormat?.['System.Description']?.toLowerCase() === 'markdown';
  return (isMarkdown ? given.trim() : textOfHtml(given)) || null;
}

/** `upload; needs help` */
function tagsOf(tags: string): string[] {
  return tags
    .split(';')
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
}

type Person = schema.AzureWorkItem['fields']['System.AssignedTo'];

/** By id, where the name that people sign in with is an address. */
function emailsOf(people: readonly Person[]): Readonly<Record<string, string>> | undefined {
  const told = people.flatMap((person) => (person?.uniqueName ? [[person.id, person.uniqueName]] : []));
  return told.length === 0 ? undefined : (Object.fromEntries(told) as Record<string, string>);
}
