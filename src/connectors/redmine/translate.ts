import { plainComment, type StandingComment } from '../../model/comment.ts';
import type { Delivery } from '../../model/delivery.ts';
import { type Item, type ItemReference, type WorkItem, workItemKey } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present } from '../kit/fields.ts';
import { read, readable, readJson } from '../kit/json.ts';
import { NOT_FOUND, UNJUDGED, withComment } from '../kit/outcome.ts';
import { inScope } from '../kit/scope.ts';
import { baseOf, hostOf, type Options, scopeOf } from './options.ts';
import * as schema from './schema.ts';
import { textOfTextile } from './textile.ts';
import { EVENT } from './verify.ts';

/** The connector's own names of what polls and fetches bring. */
export const SHAPES = {
  list: 'issues.list',
  issue: 'issues.get',
  gone: 'issues.gone',
  missing: 'issues.missing',
} as const;

type Translator = (payload: unknown, options: Options) => Translation;

/** By what the body calls itself. */
const OF_WEBHOOK: ReadonlyMap<string, Translator> = new Map([
  ['issue.created', issueEvent],
  ['issue.updated', issueEvent],
  ['issue.deleted', issueEvent],
]);

const OF_READ: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  [SHAPES.list, list],
  [SHAPES.issue, fetched],
  [SHAPES.gone, gone],
  [SHAPES.missing, () => NOT_FOUND],
]);

const NOT_FOLLOWED = { outcome: 'ignored', reason: 'event_not_followed' } as const;

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation {
  if (delivery.source === 'webhook') {
    if (delivery.event !== EVENT) return NOT_FOLLOWED;
    const payload = readJson(delivery.body);
    const { type } = read(schema.event, payload);
    return OF_WEBHOOK.get(type)?.(payload, options) ?? NOT_FOLLOWED;
  }
  const translateIt = OF_READ.get(delivery.event);
  return translateIt ? translateIt(readJson(delivery.body), options) : NOT_FOLLOWED;
}

/** Pure: what Redmine posts names its event, whatever it is about. */
export function eventOf(payload: unknown): string | undefined {
  return readable(schema.event, payload) && EVENT;
}

/** What `fetch` needs to get this item. It is followed, also after a move to another project. */
export function reference(item: Item): ItemReference {
  const { key, containerId } = item as WorkItem;
  return { kind: 'work_item', key, locator: { issueId: key.slice(key.lastIndexOf(':') + 1), projectId: containerId } };
}

/**
 * A webhook names the project by its number and title only, and in the rights of whoever made it: the issue is read, and
 * with it whether its project is followed.
 */
function issueEvent(payload: unknown, options: Options): Translation {
  const { id, project } = read(schema.issueEvent, payload).data.issue;
  const key = workItemKey('redmine', hostOf(options), String(id));
  const locator = { issueId: String(id), ...(project && { projectId: String(project.id) }), ...UNJUDGED };
  const references = [{ kind: 'work_item', key, locator } as const];
  return withComment({ outcome: 'references', references }, toldNote(payload));
}

function toldNote(payload: unknown): StandingComment | undefined {
  const journal = readable(schema.noted, payload)?.data.journal;
  return journal && { author: String(journal.user.id), text: plainComment(journal.notes) };
}

/** Pages were asked for, so they are in scope. */
function list(payload: unknown, options: Options): Translation {
  const { issues, statuses } = read(schema.list, payload);
  return { outcome: 'items', items: issues.map((each) => shown(each, statuses, options)) };
}

function fetched(payload: unknown, options: Options): Translation {
  const { issue, statuses, project } = read(schema.fetched, payload);
  if (!isFollowed(project, options)) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  return { outcome: 'items', items: [shown(issue, statuses, options)] };
}

function gone(payload: unknown, options: Options): Translation {
  const { id, projectId, project, seenAt } = read(schema.gone, payload);
  if (!isFollowed(project, options)) return { outcome: 'ignored', reason: 'project_not_in_scope' };
  const item = { ...identity(id, projectId, options), updatedAt: Date.parse(seenAt), gone: true };
  return { outcome: 'items', items: [item] };
}

/** Only where it is still to be judged does the project stand beside its issue. */
function isFollowed(project: schema.Project | undefined, options: Options): boolean {
  return project === undefined || inScope({ id: String(project.id), name: project.identifier }, scopeOf(options));
}

/** What became private is not shown any more: here it is gone, and nothing of it is taken. */
function shown(found: schema.RedmineIssue, statuses: readonly schema.Status[] | undefined, options: Options): WorkItem {
  if (!isHidden(found, options)) return itemOf(found, statuses, options);
  return { ...identity(found.id, found.project.id, options), updatedAt: Date.parse(found.updated_on), gone: true };
}

/** What is private there would be read by everybody here. */
export function isHidden({ is_private }: Pick<schema.RedmineIssue, 'is_private'>, options: Options): boolean {
  return is_private === true && !options.private;
}

function itemOf(found: schema.RedmineIssue, statuses: readonly schema.Status[] | undefined, options: Options) {
  const { id, project, assigned_to: assignee, author } = found;
  const item: WorkItem = {
    ...identity(id, project.id, options),
    updatedAt: Date.parse(found.updated_on),
    url: `${baseOf(options)}/issues/${id}`,
    ...present({
      containerName: project.name,
      title: found.subject,
      description: descriptionOf(found.description, options),
      state: stateOf(found.status, statuses, options),
      rawState: found.status?.name,
      type: nameOf(found.tracker),
      priority: nameOf(found.priority),
      assignees: assignee === undefined ? undefined : assignee === null ? [] : [String(assignee.id)],
      author: author === undefined ? undefined : author === null ? null : String(author.id),
      createdAt: found.created_on,
    }),
  };
  return item;
}

function identity(id: number, projectId: number, options: Options) {
  const host = hostOf(options);
  const key = workItemKey('redmine', host, String(id));
  const containerId = String(projectId);
  return { kind: 'work_item' as const, key, connector: 'redmine', host, containerId, identifier: `#${id}` };
}

/** Absent where nobody tells whether the status is a closed one. */
function stateOf(
  status: schema.RedmineIssue['status'],
  statuses: readonly schema.Status[] | undefined,
  { inProgress }: Options,
): WorkItem['state'] {
  if (status === undefined) return undefined;
  const isClosed = status.is_closed ?? statuses?.find(({ id }) => id === status.id)?.is_closed;
  if (isClosed === undefined) return undefined;
  if (isClosed) return 'done';
  const name = status.name.toLowerCase();
  return inProgress.some((each) => each.toLowerCase() === name) ? 'in_progress' : 'open';
}

function descriptionOf(given: string | null | undefined, { formatting }: Options): string | null | undefined {
  if (given === undefined) return undefined;
  const text = formatting === 'textile' ? textOfTextile(given ?? '') : (given ?? '').replace(/\r\n?/g, '\n').trim();
  return text === '' ? null : text;
}

function nameOf(given: { readonly name: string } | null | undefined): string | null | undefined {
  return given === null ? null : given?.name;
}
