import { type ZodType, z } from 'zod';
import type { Delivery } from '../../model/delivery.ts';
import { type WorkItem, workItemKey } from '../../model/item.ts';
import type { DesiredComment, PostedComment } from '../../model/notice.ts';
import type { CloseFields, Connection, ConnectionDeps, Connector, Hooks, Translation } from '../connector.ts';
import { type ContainerWords, checkUnits, type UnitChecks } from './check.ts';
import {
  type EngineMethods,
  identityOf,
  itemsOrReferences,
  type Locator,
  type Lookup,
  locatorOf,
  NOT_FOLLOWED,
  NOT_FOUND,
  outOfScope,
  readGone,
  referenceOf,
  rowNames,
  rowOfGone,
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
import { emptyPageFlag, historyPage, type Order, pollPage, type Walk } from './walk.ts';

/** The vendor's API. It reduces what it lists and finds to the fields that are read. Every method throws `SyncError`. */
export interface TrackerSource<Container> extends Pick<Walk, 'list'>, UnitChecks<Container> {
  /** Everything that the credential sees, for patterns. */
  containers(signal: AbortSignal): Promise<readonly Container[]>;
  /** The same as it is at this moment, where `container` remembers. */
  currentContainer?(unit: string, signal: AbortSignal): Promise<Container>;
  /** `not_found` means that the item is not there, and may only be hidden. */
  item(locator: Locator, signal: AbortSignal): Promise<Lookup>;
  /** A page as worksync stores it, where that is not just the list of its elements. */
  pageOf?(found: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  /** Both get what is known of the item; see `Connection`. */
  comment(locator: Locator, comment: DesiredComment, signal: AbortSignal): Promise<PostedComment | undefined>;
  /**
   * @param key for people, in errors
   * @param fields see `Connection`
   */
  close(locator: Locator, key: string, signal: AbortSignal, fields?: CloseFields): Promise<void>;
  /** @param followed the containers of all units */
  hooks?(followed: (signal: AbortSignal) => Promise<readonly Container[]>): Hooks;
  /** Further walks of this vendor. */
  extend?(connection: Connection): Partial<Connection>;
}

/** What a tracker says of itself; the engine does what all trackers have in common. */
export interface Tracker<Options, Found, Container> extends Omit<Connector<Options>, EngineMethods>, StoredFields {
  /** The first part of the names of rows that polls and fetches bring: `issues` in `issues.list`. */
  readonly noun: string;
  readonly container: ContainerWords;
  scopeOf(options: Options): Scope;
  candidate(container: Container): Candidate;
  /** The name of a unit that a pattern took in. */
  readonly unitBy: 'id' | 'name';
  /** Whether any webhook of this event is followed; otherwise nobody reads its body. */
  follows(event: string): boolean;
  /** What a webhook tells; undefined where it is not followed after all. Throws `delivery_malformed`. */
  parseWebhook(payload: unknown, options: Options, event: string): WebhookFacts | Translation | undefined;
  /** Fields that every item has: where a webhook lacks one, intake fetches the item. */
  readonly whole?: readonly (keyof WorkItem)[];
  readonly found: ZodType<Found>;
  /** Reads a stored page, where that contains more than its elements. Throws `delivery_malformed`. */
  itemsOnPage?(payload: unknown): readonly Found[];
  itemOf(found: Found, options: Options): WorkItem;
  containerOf(found: Found): Candidate;
  /** Whether a fetched item comes with its container, so that its scope can be checked; absent: it never does. */
  needsScopeCheck?(found: Found): boolean;
  /** Reads the container that is stored beside an item that is gone, where `translate` must judge it. */
  readonly containerShape?: ZodType<Container>;
  readonly order: Order;
  changedAt(element: unknown): number;
  isDone?(element: unknown): boolean;
  /** The ids on a page of a sweep, without items that worksync does not show; absent: each element's `id`. Throws `answer_malformed`. */
  idsOf?(found: readonly unknown[], what: string, options: Options): readonly string[];
  connect(options: Options, deps: ConnectionDeps): TrackerSource<Container>;
}

/** The connector of a tracker: what all of them do alike, from what each says of itself. */
export function trackerConnector<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
): Connector<Options> {
  return {
    ...tracker,
    capabilities: { ...tracker.capabilities, workItems: true },
    translate: createTranslate(tracker),
    reference: (item) => referenceOf(tracker, item as WorkItem),
    namesIn: (given) => namedIn(tracker.scopeOf(given)),
    connect: (given, deps) => connect(tracker, given, deps),
  };
}

function connect<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
  options: Options,
  deps: ConnectionDeps,
): Connection {
  const source = tracker.connect(options, deps);
  const { candidate, unitBy, container } = tracker;
  const scope = tracker.scopeOf(options);
  const all = { name: patternsOf(scope).join(', '), read: (signal: AbortSignal) => source.containers(signal) };
  const find = (unit: string, signal: AbortSignal) => source.container(unit, signal);
  const now = (unit: string, signal: AbortSignal) => (source.currentContainer ?? source.container)(unit, signal);
  const unitOf = (each: Candidate) => each[unitBy];
  const known = createScopeResolver({ scope, clock: deps.clock, lists: [all], candidate, unitOf });
  const { units, requireReadable } = known;
  const list: TrackerSource<Container>['list'] = async (wanted, signal) => {
    requireReadable(wanted.unit);
    const { offIn } = source;
    if (!offIn) return source.list(wanted, signal);
    return detectFeatureOff(
      () => source.list(wanted, signal),
      async () => offIn(await now(wanted.unit, signal)),
    );
  };
  const walk = walkOf(tracker, { ...source, list });

  async function followed(signal: AbortSignal): Promise<readonly Container[]> {
    const found: Container[] = [];
    for (const unit of await units(signal))
      if (!isRefusedList(unit)) found.push(await find(addressOf(unit, scope), signal));
    return found;
  }

  const connection: Connection = {
    units,
    poll: (position, signal) => pollPage(walk, position, signal),
    async identify(name, signal) {
      const seen = candidate(await now(name, signal));
      return { id: seen.id, name: seen.name };
    },
    fetch: createFetch(tracker, source, now, deps),
    check: (signal) => checkUnits(container, source, scope, known, signal),
    history: (position, signal) => historyPage(walk, position, signal),
    async sweep(unit, page, signal) {
      requireReadable(unit);
      const { id: containerId } = candidate(await find(unit, signal));
      const selection = { items: 'ids', containerId } as const;
      const listed = await list({ unit, selection, page, use: 'background' }, signal);
      const { found, next } = listed;
      const what = `the items of ${unit}`;
      const ids = tracker.idsOf ? tracker.idsOf(found, what, options) : idsIn(tracker, found, what);
      const keys = ids.map((id) => workItemKey(tracker.id, tracker.host(options), id));
      return { keys, containers: [containerId], ...omitUndefined({ next }), ...emptyPageFlag(listed) };
    },
    comment: (wanted, comment, signal) => source.comment(locatorOf(tracker, wanted), comment, signal),
    close: (wanted, signal, fields) => source.close(locatorOf(tracker, wanted), wanted.key, signal, fields),
    ...(source.hooks && { hooks: source.hooks(followed) }),
  };
  return { ...connection, ...source.extend?.(connection) };
}

function idsIn(
  { itemId }: Pick<Tracker<unknown, unknown, unknown>, 'itemId'>,
  found: readonly unknown[],
  what: string,
) {
  const id = z.union([z.string(), z.int()]).transform(String).pipe(itemId.shape);
  return parseAnswer(z.array(z.object({ id })), found, what).map((each) => each.id);
}

function walkOf<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
  source: TrackerSource<Container>,
): Walk {
  const event = rowNames(tracker.noun).list;
  return {
    ...tracker,
    list: (wanted, signal) => source.list(wanted, signal),
    async write(found, signal) {
      return { event, body: writeJson(source.pageOf ? await source.pageOf(found, signal) : found) };
    },
  };
}

/**
 * Gets one item by its id, which survives moves. Calls the item gone only where this credential sees its container now: an
 * item that it may no longer see looks the same.
 */
function createFetch<Options, Found, Container>(
  tracker: Tracker<Options, Found, Container>,
  source: TrackerSource<Container>,
  now: TrackerSource<Container>['container'],
  { clock }: ConnectionDeps,
): Connection['fetch'] {
  const shapes = rowNames(tracker.noun);
  return async (wanted, signal) => {
    const locator = locatorOf(tracker, wanted);
    const { id, container, identifier, isFollowed } = locator;
    const looked = (await undefinedOn(source.item(locator, signal), 'not_found')) ?? { isGone: false };
    if (looked.found !== undefined) {
      const body = writeJson(looked.found);
      return { event: isFollowed ? shapes.judged : shapes.item, body };
    }
    // worksync has nothing of it, and nobody can tell whether it is gone or hidden.
    if (container === undefined || identifier === undefined) return { event: shapes.missing, body: writeJson({}) };
    const place = looked.isGone ? undefined : await now(container, signal);
    const off = place && source.offIn?.(place);
    if (off !== undefined) throw featureOff(off);
    const seenAt = new Date(clock.now()).toISOString();
    const gone = { id, container, identifier, seenAt, place: isFollowed && place };
    return { event: shapes.gone, body: writeJson(rowOfGone(tracker, gone)) };
  };
}

const WHOLE: readonly (keyof WorkItem)[] = ['state', 'title', 'description'];

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function createTranslate<Options, Found, Container>(tracker: Tracker<Options, Found, Container>) {
  const names = rowNames(tracker.noun);
  const { whole = WHOLE } = tracker;
  const isWhole = (item: WorkItem) => whole.every((field) => item[field] !== undefined);

  const refused = (place: Candidate, options: Options) =>
    inScope(place, tracker.scopeOf(options)) ? undefined : outOfScope(tracker.container.word);

  function ofWebhook(event: string, payload: unknown, options: Options): Translation {
    const told = tracker.parseWebhook(payload, options, event);
    if (told === undefined) return NOT_FOLLOWED;
    if ('outcome' in told) return told;
    const { container } = told;
    // The names and patterns of a scope decide only where the name is told: else what is fetched is judged.
    if (container?.name === undefined) return toBeJudged(told, options);
    return refused({ id: container.id, name: container.name }, options) ?? taken(told, options);
  }

  function toBeJudged(told: WebhookFacts, options: Options): Translation {
    const reference = webhookReference(tracker, tracker.host(options), { ...told, isFollowed: 'unknown' });
    return { outcome: 'references', references: [reference], ...omitUndefined({ comment: told.comment }) };
  }

  function taken(told: WebhookFacts, options: Options): Translation {
    const { id, identifier, container, item, goneAt, comment } = told;
    const host = tracker.host(options);
    if (goneAt !== undefined && container && identifier !== undefined) {
      const identity = identityOf(tracker.id, host, { id, container: container.id, identifier });
      return { outcome: 'items', items: [{ ...identity, updatedAt: goneAt, gone: true }] };
    }
    if (item) return itemsOrReferences([item], isWhole, (each) => referenceOf(tracker, each));
    return {
      outcome: 'references',
      references: [webhookReference(tracker, host, told)],
      ...omitUndefined({ comment }),
    };
  }

  /** worksync asked for pages and fetched objects, so they are in scope, also after a move. */
  const ofRead: ReadonlyMap<string, (payload: unknown, options: Options) => Translation> = new Map([
    [names.list, list],
    [names.item, fetched],
    [names.judged, judged],
    [names.gone, gone],
    [names.missing, () => NOT_FOUND],
  ]);

  /** Taken as they are, even with fields absent: another request would bring the same. */
  function list(payload: unknown, options: Options): Translation {
    const found = tracker.itemsOnPage?.(payload) ?? read(z.array(tracker.found), payload);
    return { outcome: 'items', items: found.map((each) => tracker.itemOf(each, options)) };
  }

  function fetched(payload: unknown, options: Options): Translation {
    const found = read(tracker.found, payload);
    return tracker.needsScopeCheck?.(found)
      ? judge(found, options)
      : { outcome: 'items', items: [tracker.itemOf(found, options)] };
  }

  /** An event reported this item, and did not tell whether it is in scope. */
  function judged(payload: unknown, options: Options): Translation {
    return judge(read(tracker.found, payload), options);
  }

  function judge(found: Found, options: Options): Translation {
    return (
      refused(tracker.containerOf(found), options) ?? { outcome: 'items', items: [tracker.itemOf(found, options)] }
    );
  }

  function gone(payload: unknown, options: Options): Translation {
    const { seenAt, place, ...row } = readGone(tracker, payload);
    const told = place === undefined || !tracker.containerShape ? undefined : read(tracker.containerShape, place);
    const identity = identityOf(tracker.id, tracker.host(options), row);
    return (
      (told === undefined ? undefined : refused(tracker.candidate(told), options)) ?? {
        outcome: 'items',
        items: [{ ...identity, updatedAt: Date.parse(seenAt), gone: true }],
      }
    );
  }

  return ({ source, event, body }: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation => {
    if (source === 'webhook') return tracker.follows(event) ? ofWebhook(event, readJson(body), options) : NOT_FOLLOWED;
    return ofRead.get(event)?.(readJson(body), options) ?? NOT_FOLLOWED;
  };
}
