import { z } from 'zod';
import { plainComment, type StandingComment } from '../../model/comment.ts';
import type { Delivery } from '../../model/delivery.ts';
import { type Item, type ItemKey, type ItemReference, type WorkItem, workItemKey } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readable, readJson } from '../kit/json.ts';
import { itemsOrReferences, NOT_FOUND, UNJUDGED, withComment } from '../kit/outcome.ts';
import { inScope } from '../kit/scope.ts';
import { ANY_TENANT } from '../kit/tenants.ts';
import { type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';

/** The connector's own names of what polls and fetches bring. */
export const SHAPES = {
  list: 'issues.list',
  issue: 'issues.get',
  gone: 'issues.gone',
  judged: 'issues.judged',
  missing: 'issues.missing',
} as const;

type Translator = (payload: unknown, options: Options) => Translation;

const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['Issue', issueEvent],
  ['Comment', commentEvent],
]);

/** Pages and fetched objects were asked for, so they are in scope, also after a move to another team. */
const OF_READ: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  [SHAPES.list, list],
  [SHAPES.issue, fetched],
  [SHAPES.gone, gone],
  [SHAPES.judged, judged],
  [SHAPES.missing, () => NOT_FOUND],
]);

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation {
  const translators = delivery.source === 'webhook' ? OF_WEBHOOK : OF_READ;
  const translateIt = translators.get(delivery.event);
  if (!translateIt) return { outcome: 'ignored', reason: 'event_not_followed' };
  return translateIt(readJson(delivery.body), options);
}

/** Those of before `webhookId` and `organizationId` say no more. */
const named = z.object({ type: z.string().min(1), action: z.string(), data: z.looseObject({ id: z.string() }) });

/** Pure: the body repeats what the header names. */
export function eventOf(payload: unknown): string | undefined {
  return readable(named, payload)?.type;
}

/** What `fetch` needs to get this item. */
export function reference(item: Item): ItemReference {
  const { key, containerId, identifier } = item as WorkItem;
  return referenceTo(key, key.slice(key.lastIndexOf(':') + 1), containerId, identifier);
}

/** The team and the identifier are for one that is gone: nothing else can be asked for them then. */
function referenceTo(key: ItemKey, issueId: string, teamId: string, identifier: string): ItemReference {
  return { kind: 'work_item', key, locator: { issueId, teamId, identifier } };
}

function isForeign(payload: unknown, options: Options): boolean {
  const { organizationId = options.organizationId } = read(schema.organization, payload);
  return options.organizationId !== ANY_TENANT && organizationId !== options.organizationId;
}

const FOREIGN = { outcome: 'ignored', reason: 'organization_not_configured' } as const;

function outOfScope(team: schema.LinearIssue['team'], options: Options): Translation | undefined {
  if (inScope({ id: team.id, name: team.key }, scopeOf(options))) return undefined;
  return { outcome: 'ignored', reason: 'team_not_in_scope' };
}

type Named = z.infer<typeof schema.namedIssue>['data'];

/** What says no more than which issue it is about: that is fetched, and where the team is not told, judged then. */
function namedIssue({ id, identifier, team }: Named, options: Options): Translation {
  const key = workItemKey('linear', options.organizationId, id);
  if (team && identifier !== undefined)
    return (
      outOfScope(team, options) ?? { outcome: 'references', references: [referenceTo(key, id, team.id, identifier)] }
    );
  const locator = { issueId: id, ...UNJUDGED };
  return { outcome: 'references', references: [{ kind: 'work_item', key, locator }] };
}

/** Every such event carries the whole issue; one that is removed is in the trash, or no more at all. */
function issueEvent(payload: unknown, options: Options): Translation {
  if (isForeign(payload, options)) return FOREIGN;
  const event = readable(schema.issueEvent, payload);
  if (!event) return namedIssue(read(schema.namedIssue, payload).data, options);
  const { action, createdAt, data } = event;
  const outside = outOfScope(data.team, options);
  if (outside) return outside;
  const { emails: _, ...item } = fromHook(data, options);
  if (action !== 'remove') return itemsOrReferences([item], isWhole, reference);
  // Taking an issue away does not count as a change of it: the event's own time is later.
  const updatedAt = Math.max(item.updatedAt, createdAt === undefined ? 0 : Date.parse(createdAt));
  return { outcome: 'items', items: [{ ...identity(data, options), updatedAt, gone: true }] };
}

function commentEvent(payload: unknown, options: Options): Translation {
  if (isForeign(payload, options)) return FOREIGN;
  const { issue, issueId } = read(schema.commentEvent, payload).data;
  const named = issue ?? (typeof issueId === 'string' ? { id: issueId } : undefined);
  if (!named) return { outcome: 'ignored', reason: 'not_an_issue' };
  return withComment(namedIssue(named, options), toldComment(payload));
}

function toldComment(payload: unknown): StandingComment | undefined {
  const told = readable(schema.toldComment, payload);
  return told && { id: told.data.id, author: told.actor.id, text: plainComment(told.data.body) };
}

/** Taken as they are, also with fields absent: asking once more would bring the same. */
function list(payload: unknown, options: Options): Translation {
  const found = read(schema.issue.array(), payload);
  return { outcome: 'items', items: found.map((each) => fromApi(each, options)) };
}

function fetched(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [fromApi(read(schema.issue, payload), options)] };
}

/** One of which an event told without naming its team. */
function judged(payload: unknown, options: Options): Translation {
  const issue = read(schema.issue, payload);
  return outOfScope(issue.team, options) ?? { outcome: 'items', items: [fromApi(issue, options)] };
}

function gone(payload: unknown, options: Options): Translation {
  const { teamId, seenAt, ...issue } = read(schema.gone, payload);
  const item = { ...identity({ ...issue, team: { id: teamId } }, options), updatedAt: Date.parse(seenAt), gone: true };
  return { outcome: 'items', items: [item] };
}

function isWhole(item: WorkItem): boolean {
  return [item.state, item.title, item.description].every((field) => field !== undefined);
}

function fromApi(found: schema.LinearIssue, options: Options): WorkItem {
  const { assignee, creator, labels } = found;
  return {
    ...common(found, options),
    ...present({
      // Some of the labels would look like all of them.
      labels: labels?.pageInfo.hasNextPage === false ? sorted(labels.nodes.map(({ name }) => name)) : undefined,
      assignees: assignee === undefined ? undefined : assignee === null ? [] : [assignee.id],
      author: creator === null ? null : creator?.id,
      emails: emailsOf([assignee, creator]),
    }),
  };
}

function fromHook(data: schema.IssueEvent['data'], options: Options): WorkItem {
  const assigneeId = idOf(data.assigneeId, data.assignee);
  return {
    ...common(data, options),
    ...present({
      labels: sorted(data.labels?.map(({ name }) => name)),
      assignees: assigneeId === undefined ? undefined : assigneeId === null ? [] : [assigneeId],
      author: idOf(data.creatorId, data.creator),
    }),
  };
}

/** Either of them tells who it is, or that it is nobody; absent only where neither is carried. */
function idOf(id: string | null | undefined, person: schema.LinearIssue['assignee']): string | null | undefined {
  if (id !== undefined) return id;
  return person === null ? null : person?.id;
}

type Common = Omit<schema.LinearIssue, 'labels' | 'assignee' | 'creator'>;

/** Fields that webhooks and the API write alike. */
function common(found: Common, options: Options): WorkItem {
  const { state, priority } = found;
  return {
    ...identity(found, options),
    updatedAt: Date.parse(found.updatedAt),
    containerName: found.team.key,
    ...(found.trashed === true ? { gone: true } : {}),
    ...present({
      url: found.url?.replace(SLUG, '$1'),
      title: found.title,
      description: found.description === '' ? null : found.description,
      state: state && STATES.get(state.type),
      rawState: state?.name,
      priority: priority === undefined ? undefined : (PRIORITIES.get(priority) ?? null),
      createdAt: found.createdAt,
    }),
  };
}

/** The id stays when an issue is moved to another team, and its identifier then changes. */
function identity(
  {
    id,
    identifier,
    team,
  }: { readonly id: string; readonly identifier: string; readonly team: { readonly id: string } },
  { organizationId }: Options,
) {
  return {
    kind: 'work_item' as const,
    key: workItemKey('linear', organizationId, id),
    connector: 'linear',
    host: organizationId,
    containerId: team.id,
    identifier,
  };
}

/** The title stands at the end of an address, which leads to the issue without it too, and then stays the same. */
const SLUG = /^(https:\/\/linear\.app\/[\w-]+\/issue\/[A-Z0-9]+-\d+)\/.*$/;

/** Types are Linear's own; people name the states. */
const STATES: ReadonlyMap<string, NonNullable<WorkItem['state']>> = new Map([
  ['triage', 'open'],
  ['backlog', 'open'],
  ['unstarted', 'open'],
  ['started', 'in_progress'],
  ['completed', 'done'],
  ['canceled', 'done'],
  ['duplicate', 'done'],
]);

/** 0 stands for none. */
const PRIORITIES: ReadonlyMap<number, string> = new Map([
  [1, 'Urgent'],
  [2, 'High'],
  [3, 'Medium'],
  [4, 'Low'],
]);

/** By id, for those who show their address. */
function emailsOf(people: readonly schema.LinearIssue['assignee'][]): Readonly<Record<string, string>> | undefined {
  const told = people.flatMap((person) => (person?.email ? [[person.id, person.email]] : []));
  return told.length === 0 ? undefined : (Object.fromEntries(told) as Record<string, string>);
}
