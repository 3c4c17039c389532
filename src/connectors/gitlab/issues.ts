import { type ItemReference, type WorkItem, workItemKey } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present, sorted } from '../kit/fields.ts';
import { read, readable } from '../kit/json.ts';
import { itemsOrReferences, UNJUDGED } from '../kit/outcome.ts';
import {
  asInstant,
  asWritten,
  isFollowed,
  people,
  projectIn,
  usernames,
  wholeSeconds,
  withoutNumber,
} from './common.ts';
import type { Options } from './options.ts';
import * as schema from './schema.ts';

/** Issues, and the other kinds that GitLab keeps in the same list: incidents, tasks (GL11). */

/** Every such event carries the issue as it was at that time. */
export function issueHook(payload: unknown, options: Options): Translation {
  const named = read(schema.namedIssue, payload).object_attributes;
  return ofHook(payload, named, readable(schema.issueHook, payload), options);
}

/** A comment on an issue carries it, without the names of the people. */
export function noteOnIssue(payload: unknown, options: Options): Translation {
  const named = read(schema.issueOfNote, payload).issue;
  const carried = readable(schema.issueNoteHook, payload)?.issue;
  return ofHook(payload, named, carried && { object_attributes: carried }, options);
}

interface Named {
  readonly id: number;
  readonly iid: number;
}

/** What cannot be read, and what may not be followed, is fetched as long as it says which issue it is. */
function ofHook(payload: unknown, named: Named, hook: schema.IssueHook | undefined, options: Options): Translation {
  const project = projectIn(payload);
  // Epics come the same way, and belong to a group.
  if (!project) return { outcome: 'ignored', reason: 'not_in_a_project' };
  const followed = isFollowed(project, options);
  if (followed === false) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  const attributes = hook?.object_attributes;
  if (attributes && followed && isHidden(attributes, options))
    return { outcome: 'items', items: [hidden({ ...attributes, project_id: project.id }, options.host)] };
  if (hook && followed) return itemsOrReferences([fromHook(project, hook, options.host)], isWhole, referenceOf);
  const { key, locator } = referenceOf(identity(options.host, named.id, project.id, named.iid));
  const reference = { kind: 'work_item' as const, key, locator: followed ? locator : { ...locator, ...UNJUDGED } };
  return { outcome: 'references', references: [reference] };
}

export function issueList(payload: unknown, options: Options): Translation {
  const found = read(schema.issue.array(), payload);
  return itemsOrReferences(
    found.map((each) => (isHidden(each, options) ? hidden(each, options.host) : fromRest(each, options.host))),
    (item) => item.gone === true || isWhole(item),
    referenceOf,
  );
}

/** Taken as it is, also with fields absent: fetching once more would bring the same. */
export function fetchedIssue(payload: unknown, options: Options): Translation {
  const found = read(schema.issue, payload);
  const item = isHidden(found, options) ? hidden(found, options.host) : fromRest(found, options.host);
  return { outcome: 'items', items: [item] };
}

/** One that a webhook told of without telling whether its project is followed. */
export function judgedIssue(payload: unknown, options: Options): Translation {
  const found = read(schema.issue, payload);
  const project = { id: found.project_id, path_with_namespace: fromRest(found, options.host).containerName };
  if (isFollowed(project, options) !== true) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  return fetchedIssue(payload, options);
}

export function goneIssue(payload: unknown, options: Options): Translation {
  const { id, project_id, iid, seen_at } = read(schema.goneIssue, payload);
  const item = { ...identity(options.host, id, project_id, iid), updatedAt: Date.parse(seen_at), gone: true };
  return { outcome: 'items', items: [item] };
}

/** The key is made of the number that no other issue of this GitLab has; it stands last. */
export function referenceOf({
  key,
  containerId,
  identifier,
}: Pick<WorkItem, 'key' | 'containerId' | 'identifier'>): ItemReference {
  const id = key.slice(key.lastIndexOf(':') + 1);
  return { kind: 'work_item', key, locator: { projectId: containerId, iid: identifier.slice(1), id } };
}

export function issueKey(host: string, id: number) {
  return workItemKey('gitlab', host, String(id));
}

/** What became confidential is not shown any more: here it is gone, and nothing of it is taken. */
function hidden(
  { id, project_id, iid, updated_at }: Pick<schema.GitlabIssue, 'id' | 'project_id' | 'iid' | 'updated_at'>,
  host: string,
): WorkItem {
  return { ...identity(host, id, project_id, iid), updatedAt: wholeSeconds(updated_at), gone: true };
}

/** What is confidential there would be read by everybody here. */
export function isHidden({ confidential }: { confidential?: boolean | undefined }, options: Options): boolean {
  return confidential === true && !options.confidential;
}

function isWhole({ state, title, description }: WorkItem): boolean {
  return [state, title, description].every((field) => field !== undefined);
}

function fromRest(found: schema.GitlabIssue, host: string): WorkItem {
  return {
    ...identity(host, found.id, found.project_id, found.iid),
    ...fieldsOf(found),
    ...present({
      containerName: found.references && withoutNumber(found.references.full),
      description: found.description,
      author: found.author === null ? null : found.author?.username,
      labels: sorted(found.labels),
      assignees: usernames(found.assignees),
      type: typeOf(found.issue_type ?? found.type),
      url: found.web_url,
    }),
  };
}

/** The author is there as a number only, and `user` is who acted: the author is absent. */
function fromHook(project: schema.HookProject, hook: schema.IssueHook, host: string): WorkItem {
  const { object_attributes: attributes } = hook;
  return {
    ...identity(host, attributes.id, project.id, attributes.iid),
    ...fieldsOf(attributes),
    ...present({
      containerName: project.path_with_namespace,
      description: asWritten(attributes.description),
      labels: sorted((hook.labels ?? attributes.labels)?.map(({ title }) => title)),
      assignees: people(hook.assignees, attributes.assignee_ids),
      type: typeOf(attributes.type),
      url: attributes.url,
    }),
  };
}

function identity(host: string, id: number, projectId: number, iid: number) {
  const key = issueKey(host, id);
  const containerId = String(projectId);
  return { kind: 'work_item' as const, key, connector: 'gitlab', host, containerId, identifier: `#${iid}` };
}

type Common = Pick<schema.GitlabIssue, 'updated_at' | 'state' | 'title' | 'created_at'>;

/** Fields that webhooks and the API write alike. */
function fieldsOf(given: Common) {
  return {
    updatedAt: wholeSeconds(given.updated_at),
    ...present({
      state: given.state && STATES[given.state],
      rawState: given.state,
      title: given.title,
      createdAt: asInstant(given.created_at),
    }),
  };
}

const STATES = { opened: 'open', closed: 'done' } as const;

/** `Test Case` in webhooks, `test_case` or `TEST_CASE` in the API. */
function typeOf(type: string | undefined): string | undefined {
  return type?.toLowerCase().replaceAll(' ', '_');
}
