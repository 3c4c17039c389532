import * as answers from './answers.ts';
import { type Behaviour, refusal, type Site } from './exchange.ts';
import * as links from './links.ts';
import * as pulls from './pull-requests.ts';
import * as tasks from './tasks.ts';
import * as webhooks from './webhooks.ts';

export interface Value {
  /** The source that leaves it open: a section of the API specification, or of the public documentation of a service. */
  readonly leftOpenBy: string;
  /** Absent where the service itself behaves so. */
  readonly make?: (site: Site) => Behaviour;
}

const FIELDS = 'specification 2, Task: "Returned fields of a task beyond the request fields above: not shown"';
const LIST = 'specification 4, Gaps: "Other query parameters of the task list and its response shape: not shown"';
const VALUES =
  'specification 2, Task: "Allowed values of priority, format of reportedAt and element type of labels: not shown"';
const SUCCESS = 'specification 7: "Successful operations return 200, 201 or 204"';
const LINKS = 'specification 4, Gaps: "HTTP methods, bodies and responses of the work-items … routes: not shown"';
const LINK_FIELDS = 'specification 2, Task work-item link: "Fields: not shown"';
const PULLS =
  'specification 4: pull request calls "use the authenticated member\'s stored provider token"; methods, parameters and further fields: not shown';
const CODES = 'specification 7, Gaps: "Values of errorCode: not shown"';
const PROXY = 'the specification describes the service alone; requests may pass a proxy that answers by itself';
const QUOTA = 'specification 8: a quota in 15 minutes and a cap per minute, without the kind of window';
const WEBHOOKS = 'specification 6: "Event kinds, payload shapes, delivery and signature rules of webhooks: not shown"';
const CONDITIONAL = 'specification: nothing about ETag or If-None-Match';
const VERSION = 'specification 9: "Behaviour when the header is omitted, and other version values: not shown"';
const UPDATES = 'specification 4: the table of endpoints has no update of a task';
const SINGLE = 'specification 4: the table of endpoints has no single task';
const PUBLIC_TASKS = 'public documentation, Tasks';

/**
 * Everything in which a plausible server may differ from the reference service. The first value of a dimension is the
 * reference service's own. A server takes one value of each dimension.
 */
export const DIMENSIONS = {
  'task object': {
    'as ours': { leftOpenBy: FIELDS },
    'no key': { leftOpenBy: `${PUBLIC_TASKS}: no short key is shown anywhere`, make: tasks.withoutKeys },
    'strange unread fields': { leftOpenBy: FIELDS, make: tasks.strangeFields },
    'numeric times': { leftOpenBy: VALUES, make: tasks.numericTimes },
    'labels as objects': { leftOpenBy: VALUES, make: tasks.labelObjects },
    wrapped: { leftOpenBy: FIELDS, make: tasks.wrappedTasks },
  },
  'task list': {
    complete: { leftOpenBy: LIST },
    paged: { leftOpenBy: LIST, make: tasks.pagedTasks },
    'bare array': { leftOpenBy: LIST, make: tasks.bareTasks },
    'closed tasks left out': { leftOpenBy: LIST, make: tasks.openTasksOnly },
    '30 s behind writes': { leftOpenBy: LIST, make: tasks.laggingTasks },
  },
  source: {
    echoed: { leftOpenBy: FIELDS },
    absent: { leftOpenBy: FIELDS, make: tasks.withoutSource },
    'replaced by a constant': { leftOpenBy: FIELDS, make: tasks.constantSource },
    refused: { leftOpenBy: VALUES, make: tasks.refusing('source') },
    'cut to 64 characters': { leftOpenBy: FIELDS, make: tasks.cutSource },
  },
  'creation fields': {
    accepted: { leftOpenBy: VALUES },
    refused: { leftOpenBy: VALUES, make: tasks.refusing(...tasks.OPTIONAL_FIELDS) },
    'silently dropped': { leftOpenBy: FIELDS, make: tasks.droppedFields },
    'title trimmed': { leftOpenBy: FIELDS, make: tasks.trimmedTitle },
  },
  'creation answer': {
    '201 with the task': { leftOpenBy: SUCCESS },
    '201 empty': { leftOpenBy: SUCCESS, make: tasks.creationAnswer(201, false) },
    '200': { leftOpenBy: SUCCESS, make: tasks.creationAnswer(200, true) },
    '202': { leftOpenBy: SUCCESS, make: tasks.creationAnswer(202, false) },
  },
  'link POST': {
    idempotent: { leftOpenBy: LINKS },
    doubles: { leftOpenBy: LINKS, make: links.doublingLinks },
    '409 on repetition': { leftOpenBy: LINKS, make: links.refusedRepetition },
    '204 without body': { leftOpenBy: LINKS, make: links.emptyLinkAnswer },
    'externalId dropped': { leftOpenBy: LINK_FIELDS, make: links.withoutExternalId },
    'address normalised': { leftOpenBy: LINK_FIELDS, make: links.normalisedUrls },
  },
  'link GET, DELETE': {
    'as ours': { leftOpenBy: LINKS },
    '405': { leftOpenBy: LINKS, make: links.onlyAddsLinks },
    'DELETE by address': { leftOpenBy: LINKS, make: links.removalByAddress },
    'unknown id removed': { leftOpenBy: LINKS, make: links.removedAnyway },
  },
  'pull-request routes': {
    'as ours': { leftOpenBy: PULLS },
    'opens (literal)': { leftOpenBy: PULLS, make: pulls.openingPullRequests },
    '403': {
      leftOpenBy: PULLS,
      make: pulls.refusingPullRequests(refusal(403, 'provider_not_connected', 'no provider token is stored')),
    },
    '404': { leftOpenBy: PULLS, make: pulls.refusingPullRequests(refusal(404, 'not_found', 'address not found')) },
    '400 without provider': { leftOpenBy: PULLS, make: pulls.wantingProvider },
  },
  'single task route': {
    there: { leftOpenBy: SINGLE },
    none: { leftOpenBy: SINGLE, make: tasks.noSingleTask },
  },
  'task updates': {
    'PUT of changed fields': { leftOpenBy: UPDATES },
    'PUT of the whole task': { leftOpenBy: UPDATES, make: tasks.wholeUpdates },
    PATCH: { leftOpenBy: UPDATES, make: tasks.updatesBy('PATCH') },
    none: { leftOpenBy: UPDATES, make: tasks.updatesBy() },
  },
  webhooks: {
    ours: { leftOpenBy: WEBHOOKS },
    'flat camelCase': { leftOpenBy: WEBHOOKS, make: webhooks.flatEvents },
    nested: { leftOpenBy: WEBHOOKS, make: webhooks.nestedEvents },
    'ids only': { leftOpenBy: WEBHOOKS, make: webhooks.idsOnly },
    bulk: { leftOpenBy: WEBHOOKS, make: webhooks.bulkEvents },
    none: { leftOpenBy: WEBHOOKS, make: webhooks.noEvents },
    doubled: { leftOpenBy: WEBHOOKS, make: webhooks.doubledEvents },
    'out of order': { leftOpenBy: WEBHOOKS, make: webhooks.swappedEvents },
    'before the answer of the write': { leftOpenBy: WEBHOOKS, make: webhooks.lateAnswers },
  },
  'conditional reads': {
    ETag: { leftOpenBy: CONDITIONAL, make: answers.ownEtags },
    none: { leftOpenBy: CONDITIONAL, make: answers.noEtags },
    'an ETag that never changes': { leftOpenBy: CONDITIONAL, make: answers.constantEtag },
  },
  'version header': {
    required: { leftOpenBy: VERSION },
    'other name': {
      leftOpenBy: 'public documentation, Base URL, authentication, versioning: all header names begin with X-One-',
      make: answers.otherVersionHeader,
    },
    ignored: { leftOpenBy: VERSION, make: answers.ignoredVersion },
  },
  limits: {
    sliding: { leftOpenBy: QUOTA },
    'fixed window': { leftOpenBy: QUOTA, make: answers.limited({ isFixed: true }) },
    '429 counts too': { leftOpenBy: QUOTA, make: answers.limited({ countsRefused: true }) },
    '429 without a hint': {
      leftOpenBy: 'specification 7: the delay stands in the message, which clients must not match',
      make: answers.limited({ hasHint: false }),
    },
    'burst 60': {
      leftOpenBy: 'specification 8: "stated as 40 in one place and 60 in another"',
      make: answers.limited({ burst: 60 }),
    },
    'burst 20': { leftOpenBy: 'specification 8: the burst cap is inconsistent', make: answers.limited({ burst: 20 }) },
  },
  errors: {
    'as ours': { leftOpenBy: CODES },
    'no errorCode': {
      leftOpenBy: 'public documentation, API keys, limits, errors: the 429 is shown with code and message only',
      make: answers.withoutErrorCode,
    },
    'HTML from a proxy': { leftOpenBy: PROXY, make: answers.htmlRefusals },
    'message only from a proxy': { leftOpenBy: PROXY, make: answers.messageOnly },
    '404 for 403': { leftOpenBy: CODES, make: answers.otherStatus(403, 404, 'not_found') },
    '409 for 400': { leftOpenBy: CODES, make: answers.otherStatus(400, 409, 'conflict') },
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Value>>>>;

export type Dimension = keyof typeof DIMENSIONS;

/** Values by dimension; the first one where none is given. */
export type Behaviours = { readonly [One in Dimension]?: keyof (typeof DIMENSIONS)[One] };

/** The values of each dimension by name, the reference service's own first. */
export function valuesByDimension(): Readonly<Record<Dimension, readonly string[]>> {
  const named = Object.entries(DIMENSIONS).map(([dimension, values]) => [dimension, namesOf(values)]);
  return Object.fromEntries(named) as Record<Dimension, string[]>;
}

/** A server for each value that is not the reference service's own, with all else as there. */
export function singles(): readonly Behaviours[] {
  return Object.entries(valuesByDimension()).flatMap(([dimension, values]) =>
    values.slice(1).map((value) => ({ [dimension]: value })),
  );
}

/**
 * As few servers as name each of these values once. A server whose version header has another name refuses everything, so it differs in
 * nothing else.
 */
export function eachOnce(): readonly Behaviours[] {
  const {
    'version header': [, otherName, ...headers],
    ...others
  } = valuesByDimension();
  const named = Object.entries({ ...others, 'version header': headers }).map(
    ([dimension, values]) => [dimension, dimension === 'version header' ? values : values.slice(1)] as const,
  );
  const count = Math.max(...named.map(([, values]) => values.length));
  const servers = Array.from({ length: count }, (_, index) =>
    Object.fromEntries(named.flatMap(([dimension, values]) => (values[index] ? [[dimension, values[index]]] : []))),
  );
  return [...servers, { 'version header': otherName } as Behaviours];
}

export function tableOfDimensions(): readonly { dimension: string; value: string; leftOpenBy: string }[] {
  return Object.entries(DIMENSIONS).flatMap(([dimension, values]) =>
    namesOf(values).map((value) => ({
      dimension,
      value,
      leftOpenBy: (values as Record<string, Value>)[value]!.leftOpenBy,
    })),
  );
}

/** Integer-like names come first in an object, so the first value is the one without such a name. */
function namesOf(values: Readonly<Record<string, Value>>): string[] {
  const names = Object.keys(values);
  return [...names.filter((name) => !/^\d+$/.test(name)), ...names.filter((name) => /^\d+$/.test(name))];
}
