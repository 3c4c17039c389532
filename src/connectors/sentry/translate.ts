import type { Delivery } from '../../model/delivery.ts';
import { type Item, type ItemReference, type WorkItem, workItemKey } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { present } from '../kit/fields.ts';
import { read, readable, readJson } from '../kit/json.ts';
import { itemsOrReferences, NOT_FOUND, UNJUDGED } from '../kit/outcome.ts';
import { inScope } from '../kit/scope.ts';
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

/** `Sentry-Hook-Resource` of what is followed. Comments change nothing that is kept of an issue. */
const EVENT = 'issue';

type Translator = (payload: unknown, options: Options) => Translation;

/** Pages and fetched objects were asked for, so they are in scope, also after a move to another project. */
const OF_READ: ReadonlyMap<string, Translator> = new Map<string, Translator>([
  [SHAPES.list, list],
  [SHAPES.issue, fetched],
  [SHAPES.gone, gone],
  [SHAPES.judged, judged],
  [SHAPES.missing, () => NOT_FOUND],
]);

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation {
  const { source, event, body } = delivery;
  const ofWebhook = event === EVENT ? issueEvent : undefined;
  const translateIt = source === 'webhook' ? ofWebhook : OF_READ.get(event);
  if (!translateIt) return { outcome: 'ignored', reason: 'event_not_followed' };
  return translateIt(readJson(body), options);
}

/** Pure: what an issue's webhook carries is known by its shape. */
export function eventOf(payload: unknown): string | undefined {
  return readable(schema.issueEvent, payload) && EVENT;
}

/** What `fetch` needs to get this item; the project and the short id are for one that is gone. */
export function reference(item: Item): ItemReference {
  const { key, containerId, identifier } = item as WorkItem;
  const id = key.slice(key.lastIndexOf(':') + 1);
  return { kind: 'work_item', key, locator: { id, projectId: containerId, shortId: identifier } };
}

/** Every such event carries the issue as it was at that time, whatever happened to it. */
function issueEvent(payload: unknown, options: Options): Translation {
  const issue = readable(schema.issueEvent, payload)?.data.issue;
  if (!issue) return namedIssue(payload, options);
  return outOfScope(issue.project, options) ?? itemsOrReferences([itemOf(issue, options)], isWhole, reference);
}

type Project = schema.SentryIssue['project'];

function outOfScope({ id, slug }: Project, options: Options): Translation | undefined {
  if (inScope({ id, name: slug }, scopeOf(options))) return undefined;
  return { outcome: 'ignored', reason: 'project_not_in_scope' };
}

/** What has drifted, and still says which issue it is about: that is fetched, and judged then where need be. */
function namedIssue(payload: unknown, options: Options): Translation {
  const { id, shortId, project } = read(schema.namedIssue, payload).data.issue;
  const key = workItemKey('sentry', options.host, id);
  const isTold = project && shortId !== undefined;
  const locator: ItemReference['locator'] = isTold ? { id, projectId: project.id, shortId } : { id, ...UNJUDGED };
  return (
    (project && outOfScope(project, options)) ?? {
      outcome: 'references',
      references: [{ kind: 'work_item', key, locator }],
    }
  );
}

/** One of which an event told without naming its project. */
function judged(payload: unknown, options: Options): Translation {
  const issue = read(schema.issue, payload);
  return outOfScope(issue.project, options) ?? { outcome: 'items', items: [itemOf(issue, options)] };
}

/** Taken as they are, also with fields absent: asking once more would bring the same. */
function list(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: read(schema.issue.array(), payload).map((each) => itemOf(each, options)) };
}

function fetched(payload: unknown, options: Options): Translation {
  return { outcome: 'items', items: [itemOf(read(schema.issue, payload), options)] };
}

function gone(payload: unknown, options: Options): Translation {
  const { id, shortId, projectId, seenAt } = read(schema.gone, payload);
  const item = { ...identity(id, projectId, shortId, options), updatedAt: Date.parse(seenAt), gone: true };
  return { outcome: 'items', items: [item] };
}

function isWhole({ state, title, url }: WorkItem): boolean {
  return [state, title, url].every((field) => field !== undefined);
}

/**
 * Sentry keeps no time of the last change: `lastSeen` is that of the last event. Two contents of one such time are doubtful,
 * and what is fetched then decides.
 */
function itemOf(found: schema.SentryIssue, options: Options): WorkItem {
  const { id, shortId, project, status, substatus, assignedTo, culprit } = found;
  return {
    ...identity(id, project.id, shortId, options),
    updatedAt: Date.parse(found.lastSeen),
    containerName: project.slug,
    ...present({
      url: (found.permalink ?? found.web_url)?.split(/[?#]/, 1)[0],
      title: found.title,
      description: culprit === undefined ? undefined : culprit || null,
      state: status === undefined ? undefined : STATES.get(status),
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

function identity(id: string, containerId: string, identifier: string, { host }: Options) {
  const key = workItemKey('sentry', host, id);
  return { kind: 'work_item' as const, key, connector: 'sentry', host, containerId, identifier };
}

/** Archived is done: nobody is to work on it. When it escalates, Sentry opens it again. */
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
