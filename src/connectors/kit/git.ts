import type { ZodType } from 'zod';
import type { Delivery } from '../../model/delivery.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { Item, ItemReference, PullRequest, WorkItem } from '../../model/item.ts';
import type { NamedUnit } from '../../model/names.ts';
import type { DesiredComment } from '../../model/notice.ts';
import type {
  Connection,
  ConnectionDeps,
  Connector,
  Hooks,
  Known,
  LinkedStatus,
  SweepPage,
  Translation,
} from '../connector.ts';
import { checkGit, type GitChecks } from './check.ts';
import { createGitProvider, type GitWrites } from './git-writes.ts';
import {
  type EngineMethods,
  itemsOrReferences,
  type Lookup,
  NOT_FOLLOWED,
  NOT_FOUND,
  outOfScope,
  readLocator,
  rowNames,
  type ScopeUnknown,
} from './items.ts';
import { omitUndefined, read, readJson, writeJson } from './payload.ts';
import { detectFeatureOff } from './refusal.ts';
import { isRefusedList, namedIn, type Scope } from './scope.ts';
import { emptyPageFlag, historyPage, type ListedPage, type ListRequest, pollPage, type Walk } from './walk.ts';

/** What identifies an item. */
export interface Parts {
  /** Its repository: the id, and the name at that time. */
  readonly container: string;
  readonly name: string;
  readonly number: string;
  /** Its own id, where it has one beside its number. */
  readonly id: string;
}

/**
 * One kind of thing that a git provider lists in each of its repositories: its pull requests, or its issues.
 * Names and shapes of what is stored never change, since rows wait in databases.
 */
export interface Kind<Options, Locator> extends Pick<Walk, 'order' | 'changedAt' | 'isConditional'> {
  readonly kind: Item['kind'];
  /** The first part of the names of rows that polls and fetches bring: `pulls` in `pulls.list`. */
  readonly noun: string;
  /** Checks what a row contains like input from outside, since addresses are made of it. */
  readonly locator: ZodType<Locator>;
  locatorOf(parts: Parts): Readonly<Record<string, string>>;
  /** The items of a stored page. Throws `delivery_malformed`, like those below. */
  itemsOn(page: unknown, options: Options): readonly Item[];
  /** Fields that every item has: where a list or a webhook lacks one, its shape has drifted, and intake fetches the item. */
  readonly whole: readonly (keyof PullRequest | keyof WorkItem)[];
  itemOf(fetched: unknown, options: Options): Item;
  /** Writes the row of an item that no longer exists; `goneOf` reads it. */
  rowOfGone(locator: Locator, seenAt: string): object;
  goneOf(row: unknown, options: Options): Item;
}

export type Identity = Omit<PullRequest, 'updatedAt'> | Omit<WorkItem, 'updatedAt'>;

/** A request for a page of one of the lists of a repository. */
export interface GitListRequest extends ListRequest {
  readonly noun: string;
}

/** The vendor's API. It reduces what it lists and finds to the fields that are read. Every method throws `SyncError`. */
export interface GitSource<Locator> extends GitChecks {
  /** The places whose lists polls walk: repositories, or groups of them. */
  units: Connection['units'];
  list(wanted: GitListRequest, signal: AbortSignal): Promise<ListedPage>;
  /** Throws for a place that stands for a list which the vendor refused. */
  requireReadable?(place: string): void;
  /** A page as worksync stores it, where that is not just the list of its elements. */
  pageOf?(
    found: readonly unknown[],
    wanted: Pick<GitListRequest, 'noun' | 'unit'>,
    signal: AbortSignal,
  ): Promise<unknown>;
  /** Reads a page of ids. Throws `answer_malformed` where it cannot: an item that is left out would look gone. */
  sweptPage(
    found: readonly unknown[],
    wanted: Pick<GitListRequest, 'noun' | 'unit'>,
    signal: AbortSignal,
  ): Promise<Omit<SweepPage, 'next'>>;
  identify(name: string, signal: AbortSignal): Promise<NamedUnit>;
  /** Looks for the item by what does not change. Where it is not there and may only be hidden, `prove` is called next. */
  item(noun: string, locator: Locator, known: Known, signal: AbortSignal): Promise<Lookup>;
  /** Throws where this credential cannot see the repository of this item, or its list, at this moment. */
  requireVisible(noun: string, locator: Locator, signal: AbortSignal): Promise<void>;
  /**
   * What is switched off in a place at this moment, as `issues of acme/web`, where a list of it was refused or not found; undefined
   * where it is on. Absent: the vendor has no such switch.
   */
  switchedOff?(noun: string, place: string, signal: AbortSignal): Promise<string | undefined>;
  readonly hooks: Hooks;
  readonly redeliver?: NonNullable<Connection['redeliver']>;
  comment(noun: string, locator: Locator, comment: DesiredComment, signal: AbortSignal): Promise<undefined>;
  /** Sets the status of a commit of a pull request, in its repository; `right` as in `Connection`. */
  readonly status: {
    readonly right: string;
    write(locator: Locator, status: LinkedStatus, signal: AbortSignal): Promise<unknown>;
  };
  /** Closes an issue; see `Connection`. */
  closeIssue?(locator: Locator, key: string, signal: AbortSignal): Promise<void>;
}

/** What a git provider says of itself; the engine does what all of them have in common. */
export interface GitVendor<Options extends { readonly commits: boolean }, Locator extends ScopeUnknown>
  extends Omit<Connector<Options>, EngineMethods> {
  /** What the vendor calls a repository. */
  readonly container: 'repository' | 'project';
  scopeOf(options: Options): Scope;
  /** Pull requests first. */
  readonly kinds: readonly Kind<Options, Locator>[];
  /** Whether polls walk the issues too. */
  withIssues?(options: Options): boolean;
  /** Translates webhooks of this event; undefined where the event is not followed: nobody reads its body then. */
  parseWebhook(event: string, options: Options): ((payload: unknown, options: Options) => Translation) | undefined;
  /** Reads the payload of a webhook, where it may have another form than JSON. */
  payloadOf?(body: Uint8Array): unknown;
  /** Whether a fetched item is in scope, where its webhook did not tell that. Throws `delivery_malformed`. */
  isFollowed?(fetched: unknown, options: Options): boolean;
  readonly writes: GitWrites;
  connect(options: Options, deps: ConnectionDeps): GitSource<Locator>;
}

/** The connector of a git provider: what all of them do alike, from what each says of itself. */
export function gitConnector<Options extends { readonly commits: boolean }, Locator extends ScopeUnknown>(
  vendor: GitVendor<Options, Locator>,
): Connector<Options> {
  return {
    ...vendor,
    capabilities: { ...vendor.capabilities, pullRequests: true },
    fetchesCommits: ({ commits }) => commits,
    translate: createTranslate(vendor),
    reference: (item) => referenceTo(kindOf(vendor, item.kind), item),
    namesIn: (given) => namedIn(vendor.scopeOf(given)),
    git: (deps) => createGitProvider(vendor.writes, deps),
    connect: (given, deps) => connect(vendor, given, deps),
  };
}

function connect<Options extends { readonly commits: boolean }, Locator extends ScopeUnknown>(
  vendor: GitVendor<Options, Locator>,
  options: Options,
  { clock, ...deps }: ConnectionDeps,
): Connection {
  const source = vendor.connect(options, { clock, ...deps });

  /** One list of one place. */
  const readUnit = (unit: string) =>
    unit.startsWith(ISSUES)
      ? { kind: kindOf(vendor, 'work_item'), place: unit.slice(ISSUES.length) }
      : { kind: kindOf(vendor, 'pull_request'), place: unit };

  const list: typeof source.list = async (wanted, signal) => {
    source.requireReadable?.(wanted.unit);
    const offOf = async () => source.switchedOff?.(wanted.noun, wanted.unit, signal);
    return detectFeatureOff(() => source.list(wanted, signal), offOf);
  };

  const walkOf = (unit: string): Walk => {
    const { kind, place } = readUnit(unit);
    const { noun } = kind;
    const wanted = { noun, unit: place };
    return {
      ...kind,
      list: (given, signal) => list({ ...given, ...wanted }, signal),
      async write(found, signal) {
        const page = source.pageOf ? await source.pageOf(found, wanted, signal) : found;
        return { event: rowNames(noun).list, body: writeJson(page) };
      },
    };
  };

  return {
    async units(signal) {
      const places = await source.units(signal);
      const isTwice = (place: string) => vendor.withIssues?.(options) && !isRefusedList(place);
      return places.flatMap((place) => (isTwice(place) ? [place, ISSUES + place] : place));
    },
    poll: (position, signal) => pollPage(walkOf(position.unit), position, signal),
    identify: (name, signal) => source.identify(name, signal),
    /** Calls an item gone only where this credential sees its repository now: a lost right looks the same as a lost item. */
    async fetch(wanted, signal, known = {}) {
      const { noun, locator: shape, rowOfGone } = kindOf(vendor, wanted.kind);
      const locator = readLocator(shape, wanted);
      const names = rowNames(noun);
      const looked = await source.item(noun, locator, known, signal);
      if (looked.found !== undefined)
        return { event: locator.isFollowed ? names.judged : names.item, body: writeJson(looked.found) };
      if (!looked.isGone) await source.requireVisible(noun, locator, signal);
      if (locator.isFollowed) return { event: names.missing, body: writeJson({}) };
      const seenAt = new Date(clock.now()).toISOString();
      return { event: names.gone, body: writeJson(rowOfGone(locator, seenAt)) };
    },
    check: (signal) => checkGit(source, signal),
    history: (position, signal) => historyPage(walkOf(position.unit), position, signal),
    async sweep(unit, page, signal) {
      const { kind, place } = readUnit(unit);
      const wanted = { noun: kind.noun, unit: place };
      const selection = { items: 'ids', containerId: place } as const;
      const listed = await list({ ...wanted, selection, page, use: 'background' }, signal);
      const swept = await source.sweptPage(listed.found, wanted, signal);
      return { ...swept, ...omitUndefined({ next: listed.next }), ...emptyPageFlag(listed) };
    },
    hooks: source.hooks,
    ...omitUndefined({ redeliver: source.redeliver }),
    comment: (wanted, comment, signal) => {
      const { noun, locator } = kindOf(vendor, wanted.kind);
      return source.comment(noun, readLocator(locator, wanted), comment, signal);
    },
    status: {
      right: source.status.right,
      async write(wanted, status, signal) {
        const { locator } = kindOf(vendor, wanted.kind);
        try {
          await source.status.write(readLocator(locator, wanted), status, signal);
        } catch (thrown) {
          throw withRight(asSyncError(thrown), source.status.right);
        }
      },
    },
    async close(wanted, signal) {
      if (wanted.kind === 'pull_request' || !source.closeIssue) throw neverClosed(wanted.key);
      const { locator } = kindOf(vendor, wanted.kind);
      await source.closeIssue(readLocator(locator, wanted), wanted.key, signal);
    },
  };
}

function kindOf<Options, Locator>({ kinds }: { kinds: readonly Kind<Options, Locator>[] }, kind: Item['kind']) {
  return kinds.find((each) => each.kind === kind) ?? (kinds[0] as Kind<Options, Locator>);
}

/** What the name of a unit begins with, where it is the list of issues of a place. */
const ISSUES = 'issues:';

/** Vendors hide what a credential may not write: both answers mean that it lacks the right, and nobody asks again. */
function withRight(error: SyncError, right: string): SyncError {
  if (error.code !== 'forbidden' && error.code !== 'not_found') return error;
  const hint = `The credential needs ${right}. Otherwise switch writeBack.status off.`;
  return new SyncError('refused', `the commit status was refused: ${error.message}`, { cause: error, hint });
}

function neverClosed(key: string): SyncError {
  return new SyncError('refused', `${key} is a pull request: people merge or close those`, {
    errorCode: 'unsupported_field',
    hint: 'Switch closing off for this connection, or let it follow issues only.',
  });
}

type Translator<Options> = (payload: unknown, options: Options) => Translation;

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function createTranslate<Options extends { readonly commits: boolean }, Locator extends ScopeUnknown>(
  vendor: GitVendor<Options, Locator>,
) {
  const { payloadOf = readJson } = vendor;
  const ofRead = new Map(vendor.kinds.flatMap((kind) => readsOf(vendor, kind)));
  return ({ source, event, body }: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation => {
    if (source === 'webhook') return vendor.parseWebhook(event, options)?.(payloadOf(body), options) ?? NOT_FOLLOWED;
    return ofRead.get(event)?.(readJson(body), options) ?? NOT_FOLLOWED;
  };
}

/** worksync asked for pages and fetched objects, so they are in scope, also under a repository's new name. */
function readsOf<Options extends { readonly commits: boolean }, Locator extends ScopeUnknown>(
  vendor: GitVendor<Options, Locator>,
  kind: Kind<Options, Locator>,
): readonly (readonly [string, Translator<Options>])[] {
  const names = rowNames(kind.noun);
  const toItem = (item: Item): Translation => ({ outcome: 'items', items: [item] });
  return [
    [names.list, (page, options) => translateItems(kind, kind.itemsOn(page, options))],
    // Taken as it is, even with fields absent: another fetch would bring the same.
    [names.item, (found, options) => toItem(kind.itemOf(found, options))],
    [names.gone, (row, options) => toItem(kind.goneOf(row, options))],
    // A webhook reported this item, and did not tell whether its repository is in scope.
    [
      names.judged,
      (found, options) => {
        const item = kind.itemOf(found, options);
        return vendor.isFollowed?.(found, options) ? toItem(item) : outOfScope(vendor.container);
      },
    ],
    [names.missing, () => NOT_FOUND],
  ];
}

/** Reads the row of an item that no longer exists. */
export function goneItemReader<Row extends { readonly seen_at: string }, Options>(
  shape: ZodType<Row>,
  identityOf: (row: Row, options: Options) => Identity,
): (row: unknown, options: Options) => Item {
  return (given, options) => {
    const row = read(shape, given);
    return { ...identityOf(row, options), updatedAt: Date.parse(row.seen_at), gone: true };
  };
}

type Named = Pick<Kind<never, never>, 'locatorOf' | 'whole'>;

/** Items as a list or a webhook tells them; intake fetches those that lack a field. */
export function translateItems({ locatorOf, whole }: Named, items: readonly Item[]): Translation {
  const isWhole = (item: Item) => item.gone === true || whole.every((field) => item[field as keyof Item] !== undefined);
  return itemsOrReferences(items, isWhole, (item) => referenceTo({ locatorOf }, item));
}

/** What `fetch` needs to get this item. */
export function referenceTo({ locatorOf }: Pick<Named, 'locatorOf'>, item: Item | Identity): ItemReference {
  const [container, name = ''] =
    item.kind === 'pull_request' ? [item.repoId, item.repoName] : [item.containerId, item.containerName];
  const id = item.key.slice(item.key.lastIndexOf(':') + 1);
  const locator = locatorOf({ container, name, number: item.identifier.replace('#', ''), id });
  return { kind: item.kind, key: item.key, locator };
}
