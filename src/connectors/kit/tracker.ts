import { type ZodType, z } from 'zod';
import { type WorkItem, workItemKey } from '../../model/item.ts';
import type { DesiredComment, PostedComment } from '../../model/notice.ts';
import type { CloseFields, Connection, ConnectionDeps, Connector, Hooks, Translation } from '../connector.ts';
import { type ContainerWords, checkUnits, type UnitChecks } from './findings.ts';
import {
  type EngineMethods,
  identityOf,
  itemsOrReferences,
  type Locator,
  type Lookup,
  locatorOf,
  mustCheckScope,
  NOT_FOLLOWED,
  NOT_FOUND,
  outOfScope,
  readGone,
  referenceOf,
  rowNames,
  rowOfGone,
  SCOPE_UNKNOWN,
  type StoredFields,
  type WebhookFacts,
  webhookReference,
} from './items.ts';
import { omitUndefined, parseAnswer, read, readJson, writeJson } from './payload.ts';
import { detectFeatureOff, featureOff, undefinedOn } from './refusal.ts';
import {
  addressOf,
  type Candidate,
  createScopeResolver,
  inScope,
  isRefusedList,
  namedIn,
  patternsOf,
  type Scope,
} from './scope.ts';
import { EVENT_IN_BODY } from './verify.ts';
import { emptyPageFlag, historyPage, type Order, pollPage, type WalkableList } from './walk.ts';

/** The vendor's API. Results contain only the fields that worksync reads. Every method throws `SyncError`. */
export interface TrackerSource<Container> extends Pick<WalkableList, 'list'>, UnitChecks<Container> {
  containers(signal: AbortSignal): Promise<readonly Container[]>;
  /** Reads a container as it is now. Needed if `container` caches. */
  currentContainer?(unit: string, signal: AbortSignal): Promise<Container>;
  /** Reads an item. `not_found` means that it is not there, or only hidden. */
  item(locator: Locator, signal: AbortSignal): Promise<Lookup>;
  /** Resolves with the content of a page to store. Absent: the list of its elements. */
  pageContent?(found: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  comment?(locator: Locator, comment: DesiredComment, signal: AbortSignal): Promise<PostedComment | undefined>;
  /** Closes an item; see `Connection`. @param key names the item in errors */
  close?(locator: Locator, key: string, signal: AbortSignal, fields?: CloseFields): Promise<void>;
  hooks?(followed: (signal: AbortSignal) => Promise<readonly Container[]>): Hooks;
  /** Returns methods that replace those of the engine. */
  extend?(connection: Connection): Partial<Connection>;
}

/**
 * The part of a connector that differs between trackers; `trackerConnector` adds the rest. `Found` is an item as the vendor lists
 * it, `Container` a project or a team.
 */
export interface Tracker<Options, Found, Container> extends Omit<Connector<Options>, EngineMethods>, StoredFields {
  /** The first part of the names of stored rows: `issues` in `issues.list`. */
  readonly noun: string;
  readonly container: ContainerWords;
  scopeOf(options: Options): Scope;
  candidate(container: Container): Candidate;
  /** Whether a container that a pattern matches becomes a unit by its id or by its name. */
  readonly unitBy: 'id' | 'name';
  /** Whether webhooks of this event may be followed; otherwise their bodies are not read. Absent: bodies name their events. */
  follows?(event: string): boolean;
  /** Returns the facts of a webhook; undefined if it is not followed after all. Throws `delivery_malformed`. */
  parseWebhook(payload: unknown, options: Options, event: string): WebhookFacts | Translation | undefined;
  /** The fields that every item has. If a webhook lacks one, intake fetches the item. */
  readonly requiredFields?: readonly (keyof WorkItem)[];
  readonly found: ZodType<Found>;
  /** Reads a stored page that contains more than its elements. Throws `delivery_malformed`. */
  itemsOnPage?(payload: unknown): readonly Found[];
  itemOf(found: Found, options: Options): WorkItem;
  containerOf(found: Found): Candidate;
  /** Whether a fetched item comes with its container, so that its scope can be checked. Absent: never. */
  needsScopeCheck?(found: Found): boolean;
  /** Parses the container in the row of an item that is gone, so that its scope can be checked. */
  readonly containerShape?: ZodType<Container>;
  readonly order: Order;
  changedAt(element: unknown): number;
  isDone?(element: unknown): boolean;
  /**
   * Returns the ids on a page of a sweep, without items that worksync does not show. Absent: the `id` of each element. Throws
   * `answer_malformed`.
   */
  idsOf?(found: readonly unknown[], what: string, options: Options): readonly string[];
  connect(options: Options, deps: ConnectionDeps): TrackerSource<Container>;
}

export function trackerConnector<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
): Connector<Options> {
  return {
    ...tracker,
    capabilities: { ...tracker.capabilities, workItems: true },
    translate: createTranslate(tracker),
    reference: (item) => referenceOf(tracker, item as WorkItem),
    namesIn: (options) => namedIn(tracker.scopeOf(options)),
    connect: (options, deps) => connect(tracker, options, deps),
  };
}

function connect<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
  options: Options,
  deps: ConnectionDeps,
): Connection {
  const source = tracker.connect(options, deps);
  const { comment, close } = source;
  const { candidate, unitBy } = tracker;
  const scope = tracker.scopeOf(options);
  const resolver = createScopeResolver({
    scope,
    clock: deps.clock,
    lists: [{ name: patternsOf(scope).join(', '), read: (signal) => source.containers(signal) }],
    candidate,
    unitOf: (each) => each[unitBy],
  });
  const { units, requireReadable } = resolver;
  const currentContainer: TrackerSource<Container>['container'] = (unit, signal) =>
    (source.currentContainer ?? source.container)(unit, signal);

  const list: TrackerSource<Container>['list'] = async (request, signal) => {
    requireReadable(request.unit);
    const { offIn } = source;
    if (!offIn) return source.list(request, signal);
    return detectFeatureOff(
      () => source.list(request, signal),
      async () => offIn(await currentContainer(request.unit, signal)),
    );
  };
  const walk: WalkableList = {
    ...tracker,
    list,
    async serialize(found, signal) {
      const page = source.pageContent ? await source.pageContent(found, signal) : found;
      return { event: rowNames(tracker.noun).list, body: writeJson(page) };
    },
  };

  async function followed(signal: AbortSignal): Promise<readonly Container[]> {
    const found: Container[] = [];
    for (const unit of await units(signal))
      if (!isRefusedList(unit)) found.push(await source.container(addressOf(unit, scope), signal));
    return found;
  }

  const connection: Connection = {
    units,
    poll: (position, signal) => pollPage(walk, position, signal),
    async identify(name, signal) {
      const { id, name: currentName } = candidate(await currentContainer(name, signal));
      return { id, name: currentName };
    },
    fetch: createFetch(tracker, source, currentContainer, deps),
    check: (signal) => checkUnits(tracker.container, source, scope, resolver, signal),
    history: (position, signal) => historyPage(walk, position, signal),
    async sweep(unit, page, signal) {
      requireReadable(unit);
      const { id: containerId } = candidate(await source.container(unit, signal));
      const selection = { items: 'ids', containerId } as const;
      const listed = await list({ unit, selection, page, use: 'background' }, signal);
      const { found, next } = listed;
      const what = `the items of ${unit}`;
      const ids = tracker.idsOf ? tracker.idsOf(found, what, options) : idsIn(tracker, found, what);
      const keys = ids.map((id) => workItemKey(tracker.id, tracker.host(options), id));
      return { keys, containers: [containerId], ...omitUndefined({ next }), ...emptyPageFlag(listed) };
    },
    ...(comment && { comment: (reference, ...given) => comment(locatorOf(tracker, reference), ...given) }),
    ...(close && { close: (reference, ...given) => close(locatorOf(tracker, reference), reference.key, ...given) }),
    ...(source.hooks && { hooks: source.hooks(followed) }),
  };
  return { ...connection, ...source.extend?.(connection) };
}

function idsIn({ itemId }: Pick<StoredFields, 'itemId'>, found: readonly unknown[], what: string): readonly string[] {
  const id = z.union([z.string(), z.int()]).transform(String).pipe(itemId.shape);
  return parseAnswer(z.array(z.object({ id })), found, what).map((element) => element.id);
}

/**
 * Creates `fetch`, which gets one item by its id, because ids survive moves. Reports the item as gone only if this credential sees
 * its container now, because an item that it may no longer see looks the same.
 */
function createFetch<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
  source: TrackerSource<Container>,
  currentContainer: TrackerSource<Container>['container'],
  { clock }: ConnectionDeps,
): Connection['fetch'] {
  const names = rowNames(tracker.noun);
  return async (reference, signal) => {
    const locator = locatorOf(tracker, reference);
    const { id, container: containerId, identifier } = locator;
    const lookup = (await undefinedOn(source.item(locator, signal), 'not_found')) ?? { isGone: false };
    if (lookup.found !== undefined)
      return { event: mustCheckScope(locator) ? names.scopeUnchecked : names.item, body: writeJson(lookup.found) };
    // No such item is stored, and without its container nothing shows whether it is gone or hidden.
    if (containerId === undefined || identifier === undefined) return { event: names.missing, body: writeJson({}) };
    const container = lookup.isGone ? undefined : await currentContainer(containerId, signal);
    const off = container && source.offIn?.(container);
    if (off !== undefined) throw featureOff(off);
    const seenAt = new Date(clock.now()).toISOString();
    const place = mustCheckScope(locator) ? container : undefined;
    const gone = { id, container: containerId, identifier, seenAt, place };
    return { event: names.gone, body: writeJson(rowOfGone(tracker, gone)) };
  };
}

const REQUIRED_FIELDS: readonly (keyof WorkItem)[] = ['state', 'title', 'description'];

/** Pure. Throws `delivery_malformed` for a body that does not fit its event. */
function createTranslate<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
): Connector<Options>['translate'] {
  const { requiredFields = REQUIRED_FIELDS, follows = (event) => event === EVENT_IN_BODY } = tracker;
  const isComplete = (item: WorkItem) => requiredFields.every((field) => item[field] !== undefined);

  function webhook(event: string, payload: unknown, options: Options): Translation {
    const facts = tracker.parseWebhook(payload, options, event);
    if (facts === undefined) return NOT_FOLLOWED;
    if ('outcome' in facts) return facts;
    const { container, comment } = facts;
    if (container?.name !== undefined)
      return (
        rejection({ id: container.id, name: container.name }, options, identified(facts, options)) ??
        inScopeWebhook(facts, options)
      );
    // The scope contains names and patterns, so it can only be checked once the item is fetched.
    const reference = webhookReference(tracker, tracker.host(options), { ...facts, ...SCOPE_UNKNOWN });
    return { outcome: 'references', references: [reference], ...omitUndefined({ comment }) };
  }

  /** Returns the item that a webhook is about, as far as it is needed if the item has left the scope. */
  function identified({ id, container, item, changedAt, ...facts }: WebhookFacts, options: Options) {
    const { identifier = typeof tracker.identifier === 'function' ? tracker.identifier(id) : undefined } = facts;
    const updatedAt = item?.updatedAt ?? changedAt;
    if (!container || identifier === undefined || updatedAt === undefined) return item;
    const identity = identityOf(tracker.id, tracker.host(options), { id, container: container.id, identifier });
    return { ...identity, ...item, updatedAt, ...omitUndefined({ containerName: container.name }) };
  }

  function inScopeWebhook(facts: WebhookFacts, options: Options): Translation {
    const { id, identifier, container, item, goneAt, comment } = facts;
    const host = tracker.host(options);
    if (goneAt !== undefined && container && identifier !== undefined) {
      const identity = identityOf(tracker.id, host, { id, container: container.id, identifier });
      return { outcome: 'items', items: [{ ...identity, updatedAt: goneAt, gone: true }] };
    }
    if (item) return itemsOrReferences([item], isComplete, (each) => referenceOf(tracker, each));
    const reference = webhookReference(tracker, host, facts);
    return { outcome: 'references', references: [reference], ...omitUndefined({ comment }) };
  }

  /** Pages are in scope, also after a move. Their items are accepted even if fields are absent: a fetch would return the same. */
  function page(payload: unknown, options: Options): Translation {
    const found = tracker.itemsOnPage?.(payload) ?? read(z.array(tracker.found), payload);
    return { outcome: 'items', items: found.map((each) => tracker.itemOf(each, options)) };
  }

  function fetched(payload: unknown, options: Options): Translation {
    const found = read(tracker.found, payload);
    // A container without a name cannot be checked: the item is where it was when it was listed.
    return (tracker.needsScopeCheck?.(found) ?? tracker.containerOf(found).name !== '')
      ? ifInScope(found, options)
      : { outcome: 'items', items: [tracker.itemOf(found, options)] };
  }

  /** The webhook about this item did not report whether it is in scope. */
  function scopeUnchecked(payload: unknown, options: Options): Translation {
    return ifInScope(read(tracker.found, payload), options);
  }

  function ifInScope(found: Found, options: Options): Translation {
    const container = tracker.containerOf(found);
    const item = tracker.itemOf(found, options);
    const { containerName = container.name || undefined } = item;
    return (
      rejection(container, options, { ...item, ...omitUndefined({ containerName }) }) ?? {
        outcome: 'items',
        items: [item],
      }
    );
  }

  function gone(payload: unknown, options: Options): Translation {
    const { seenAt, place, ...facts } = readGone(tracker, payload);
    const { containerShape } = tracker;
    const container = place === undefined || !containerShape ? undefined : read(containerShape, place);
    const identity = identityOf(tracker.id, tracker.host(options), facts);
    const rejected = container === undefined ? undefined : rejection(tracker.candidate(container), options);
    return rejected ?? { outcome: 'items', items: [{ ...identity, updatedAt: Date.parse(seenAt), gone: true }] };
  }

  function rejection(container: Candidate, options: Options, item?: WorkItem): Translation | undefined {
    return inScope(container, tracker.scopeOf(options)) ? undefined : outOfScope(tracker.container.word, item);
  }

  const names = rowNames(tracker.noun);
  const rows: ReadonlyMap<string, (payload: unknown, options: Options) => Translation> = new Map([
    [names.list, page],
    [names.item, fetched],
    [names.scopeUnchecked, scopeUnchecked],
    [names.gone, gone],
    [names.missing, () => NOT_FOUND],
  ]);
  return ({ source, event, body }, options) => {
    if (source === 'webhook') return follows(event) ? webhook(event, readJson(body), options) : NOT_FOLLOWED;
    return rows.get(event)?.(readJson(body), options) ?? NOT_FOLLOWED;
  };
}
