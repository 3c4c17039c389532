import type { ZodType } from 'zod';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { GitProviderId } from '../../model/git-providers.ts';
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
import { checkGit, type GitChecks } from './findings.ts';
import { createGitProvider, type GitWrites } from './git-writes.ts';
import {
  type EngineMethods,
  itemsOrReferences,
  type Lookup,
  mustCheckScope,
  NOT_FOLLOWED,
  NOT_FOUND,
  outOfScope,
  readLocator,
  rowNames,
  type ScopeUnknown,
} from './items.ts';
import { omitUndefined, read, readJson, writeJson } from './payload.ts';
import { detectFeatureOff } from './refusal.ts';
import { isRefusedList, mayBeInScope, namedIn, type Scope } from './scope.ts';
import { emptyPageFlag, historyPage, type ListedPage, type ListRequest, pollPage, type WalkableList } from './walk.ts';

/** The facts of which a locator consists. */
export interface LocatorParts {
  readonly container: string;
  /** Name of the repository at that time. */
  readonly name: string;
  readonly number: string;
  /** The item's own id, if it has one beside its number. */
  readonly id: string;
}

/** An item without content: its key, its repository and its number. */
export type ItemIdentity = Omit<PullRequest, 'updatedAt'> | Omit<WorkItem, 'updatedAt'>;

/**
 * One kind of item that each repository has: pull requests, or issues. The names and shapes of stored rows never change, because
 * rows outlive versions.
 */
export interface Kind<Options, Locator> extends Pick<WalkableList, 'order' | 'changedAt' | 'isConditional'> {
  readonly kind: Item['kind'];
  /** The first part of the names of stored rows: `pulls` in `pulls.list`. */
  readonly noun: string;
  /** Checks a stored locator like input from outside, because it becomes part of addresses. */
  readonly locator: ZodType<Locator>;
  locatorOf(parts: LocatorParts): Readonly<Record<string, string>>;
  /** Reads the items of a stored page. Throws `delivery_malformed`, as the methods below. */
  itemsOnPage(page: unknown, options: Options): readonly Item[];
  /** The fields that every item has. If a list or a webhook lacks one, its shape has drifted, and intake fetches the item. */
  readonly requiredFields: readonly (keyof PullRequest | keyof WorkItem)[];
  itemOf(fetched: unknown, options: Options): Item;
  /** Returns the row of an item that is gone; `goneItemOf` reads it. */
  rowOfGone(locator: Locator, seenAt: string): object;
  goneItemOf(row: unknown, options: Options): Item;
}

export interface GitListRequest extends ListRequest {
  readonly noun: string;
}

/** The vendor's API. Results contain only the fields that worksync reads. Every method throws `SyncError`. */
export interface GitSource<Locator> extends GitChecks {
  list(request: GitListRequest, signal: AbortSignal): Promise<ListedPage>;
  /**
   * Resolves with what is switched off in a unit now, such as `issues of acme/web`, or with undefined. Called if a list of it was
   * refused or not found. Absent: the vendor has no such switch.
   */
  featureOffIn?(noun: string, unit: string, signal: AbortSignal): Promise<string | undefined>;
  /** Resolves with the content of a page to store. Absent: the list of its elements. */
  pageContent?(
    found: readonly unknown[],
    list: Pick<GitListRequest, 'noun' | 'unit'>,
    signal: AbortSignal,
  ): Promise<unknown>;
  /** Reads a page of ids. Throws `answer_malformed` if one cannot be read, because an item that is left out would look gone. */
  sweptPage(
    found: readonly unknown[],
    list: Pick<GitListRequest, 'noun' | 'unit'>,
    signal: AbortSignal,
  ): Promise<Omit<SweepPage, 'next'>>;
  identify(name: string, signal: AbortSignal): Promise<NamedUnit>;
  /** Reads an item by what does not change. If it is not found and may only be hidden, `requireVisible` is called next. */
  item(noun: string, locator: Locator, known: Known, signal: AbortSignal): Promise<Lookup>;
  /** Throws if this credential cannot see the repository of this item, or its list, now. */
  requireVisible(noun: string, locator: Locator, signal: AbortSignal): Promise<void>;
  /** Absent: the vendor's API registers no webhooks. */
  readonly hooks?: Hooks;
  readonly redeliver?: NonNullable<Connection['redeliver']>;
  comment?(noun: string, locator: Locator, comment: DesiredComment, signal: AbortSignal): Promise<undefined>;
  readonly status?: {
    readonly right: string;
    write(locator: Locator, status: LinkedStatus, signal: AbortSignal): Promise<unknown>;
  };
  closeIssue?(locator: Locator, key: string, signal: AbortSignal): Promise<void>;
}

/** The part of a connector that differs between git providers. `gitConnector` adds the rest. */
export interface GitVendor<Options, Locator extends ScopeUnknown> extends Omit<Connector<Options>, EngineMethods> {
  readonly id: GitProviderId;
  /** The vendor's word for a repository. */
  readonly container: 'repository' | 'project';
  scopeOf(options: Options): Scope;
  /** Pull requests first. */
  readonly kinds: readonly Kind<Options, Locator>[];
  /** Returns the translation of webhooks of this event; undefined if it is not followed, so that its body is not read. */
  parseWebhook(event: string, options: Options): Translate<Options> | undefined;
  /** Parses the body of a webhook. Absent: it is JSON. */
  parsePayload?(body: Uint8Array): unknown;
  /** Whether a fetched item is in scope. Called if its webhook did not report that. Throws `delivery_malformed`. */
  isInScope?(fetched: unknown, options: Options): boolean;
  /** The writes of members. Absent: they open and edit pull requests at the vendor itself. */
  readonly writes?: GitWrites;
  connect(options: Options, deps: ConnectionDeps): GitSource<Locator>;
}

type Translate<Options> = (payload: unknown, options: Options) => Translation;

export function gitConnector<Options, Locator extends ScopeUnknown>(
  vendor: GitVendor<Options, Locator>,
): Connector<Options> {
  const { writes } = vendor;
  return {
    ...vendor,
    capabilities: { ...vendor.capabilities, pullRequests: true },
    translate: createTranslate(vendor),
    reference: (item) => referenceTo(kindOf(vendor, item.kind), item),
    namesIn: (options) => namedIn(vendor.scopeOf(options)),
    mayCover: (repository, options) => mayBeInScope(repository, vendor.scopeOf(options)),
    ...(writes && { git: (deps) => createGitProvider(vendor, writes, deps) }),
    connect: (options, deps) => connect(vendor, options, deps),
  };
}

const ISSUES = 'issues:';

function connect<Options, Locator extends ScopeUnknown>(
  vendor: GitVendor<Options, Locator>,
  options: Options,
  { clock, ...deps }: ConnectionDeps,
): Connection {
  const source = vendor.connect(options, { clock, ...deps });
  const { comment, status } = source;

  /** Splits a unit into the kind of its items and the unit of the source. */
  const readUnit = (unit: string) =>
    unit.startsWith(ISSUES)
      ? { kind: kindOf(vendor, 'work_item'), unit: unit.slice(ISSUES.length) }
      : { kind: kindOf(vendor, 'pull_request'), unit };

  const list: typeof source.list = async (request, signal) => {
    source.repositories.requireReadable(request.unit);
    const offIn = async () => source.featureOffIn?.(request.noun, request.unit, signal);
    return detectFeatureOff(() => source.list(request, signal), offIn);
  };

  const walkOf = (name: string): WalkableList => {
    const { kind, unit } = readUnit(name);
    const { noun } = kind;
    return {
      ...kind,
      list: (request, signal) => list({ ...request, noun, unit }, signal),
      async serialize(found, signal) {
        const page = source.pageContent ? await source.pageContent(found, { noun, unit }, signal) : found;
        return { event: rowNames(noun).list, body: writeJson(page) };
      },
    };
  };

  return {
    async units(signal) {
      const units = await source.repositories.units(signal);
      const hasIssues = (unit: string) => vendor.withIssues?.(options) && !isRefusedList(unit);
      return units.flatMap((unit) => (hasIssues(unit) ? [unit, ISSUES + unit] : unit));
    },
    poll: (position, signal) => pollPage(walkOf(position.unit), position, signal),
    identify: (name, signal) => source.identify(name, signal),
    /** Reports an item as gone only if this credential sees its repository now, because a lost right looks the same. */
    async fetch(reference, signal, known = {}) {
      const { noun, locator: shape, rowOfGone } = kindOf(vendor, reference.kind);
      const locator = readLocator(shape, reference);
      const names = rowNames(noun);
      const { found, isGone } = await source.item(noun, locator, known, signal);
      if (found !== undefined)
        return { event: mustCheckScope(locator) ? names.scopeUnchecked : names.item, body: writeJson(found) };
      if (!isGone) await source.requireVisible(noun, locator, signal);
      if (mustCheckScope(locator)) return { event: names.missing, body: writeJson({}) };
      const seenAt = new Date(clock.now()).toISOString();
      return { event: names.gone, body: writeJson(rowOfGone(locator, seenAt)) };
    },
    check: (signal) => checkGit(source, signal),
    history: (position, signal) => historyPage(walkOf(position.unit), position, signal),
    async sweep(name, page, signal) {
      const { kind, unit } = readUnit(name);
      const { noun } = kind;
      const selection = { items: 'ids', containerId: unit } as const;
      const listed = await list({ noun, unit, selection, page, use: 'background' }, signal);
      const swept = await source.sweptPage(listed.found, { noun, unit }, signal);
      return { ...swept, ...omitUndefined({ next: listed.next }), ...emptyPageFlag(listed) };
    },
    ...omitUndefined({ hooks: source.hooks, redeliver: source.redeliver }),
    ...(comment && {
      comment: (reference, desired, signal) => {
        const { noun, locator } = kindOf(vendor, reference.kind);
        return comment(noun, readLocator(locator, reference), desired, signal);
      },
    }),
    ...(status && {
      status: {
        right: status.right,
        async write(reference, written, signal) {
          const { locator } = kindOf(vendor, reference.kind);
          try {
            await status.write(readLocator(locator, reference), written, signal);
          } catch (thrown) {
            throw statusRefused(asSyncError(thrown), status.right);
          }
        },
      },
    }),
    async close(reference, signal) {
      if (reference.kind === 'pull_request' || !source.closeIssue) throw neverClosed(reference.key);
      const { locator } = kindOf(vendor, reference.kind);
      await source.closeIssue(readLocator(locator, reference), reference.key, signal);
    },
  };
}

function kindOf<Options, Locator>({ kinds }: { kinds: readonly Kind<Options, Locator>[] }, kind: Item['kind']) {
  return kinds.find((each) => each.kind === kind) ?? (kinds[0] as Kind<Options, Locator>);
}

/** Both codes mean that the credential lacks the right, because vendors hide what it may not write. The write is not repeated. */
function statusRefused(error: SyncError, right: string): SyncError {
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

/** Pure. Throws `delivery_malformed` for a body that does not fit its event. */
function createTranslate<Options, Locator extends ScopeUnknown>(
  vendor: GitVendor<Options, Locator>,
): Connector<Options>['translate'] {
  const { parsePayload = readJson } = vendor;
  const translations = new Map(vendor.kinds.flatMap((kind) => rowTranslations(vendor, kind)));
  return ({ source, event, body }, options) => {
    if (source === 'webhook') return vendor.parseWebhook(event, options)?.(parsePayload(body), options) ?? NOT_FOLLOWED;
    return translations.get(event)?.(readJson(body), options) ?? NOT_FOLLOWED;
  };
}

/** Returns the translation of each row. Rows of polls and fetches are in scope, also under a new name of the repository. */
function rowTranslations<Options, Locator extends ScopeUnknown>(
  vendor: GitVendor<Options, Locator>,
  kind: Kind<Options, Locator>,
): readonly (readonly [row: string, Translate<Options>])[] {
  const names = rowNames(kind.noun);
  const toItem = (item: Item): Translation => ({ outcome: 'items', items: [item] });
  return [
    [names.list, (page, options) => translateItems(kind, kind.itemsOnPage(page, options))],
    // Accepted even if fields are absent, because another fetch would return the same.
    [names.item, (found, options) => toItem(kind.itemOf(found, options))],
    [names.gone, (row, options) => toItem(kind.goneItemOf(row, options))],
    // A webhook reported this item, but not whether its repository is in scope.
    [
      names.scopeUnchecked,
      (found, options) => {
        const item = kind.itemOf(found, options);
        return vendor.isInScope?.(found, options) ? toItem(item) : outOfScope(vendor.container);
      },
    ],
    [names.missing, () => NOT_FOUND],
  ];
}

export function goneItemReader<Row extends { readonly seen_at: string }, Options>(
  shape: ZodType<Row>,
  identityOf: (row: Row, options: Options) => ItemIdentity,
): (row: unknown, options: Options) => Item {
  return (payload, options) => {
    const row = read(shape, payload);
    return { ...identityOf(row, options), updatedAt: Date.parse(row.seen_at), gone: true };
  };
}

/** Translates items of a list or a webhook. Items that lack a required field become references, so that intake fetches them. */
export function translateItems(
  { locatorOf, requiredFields }: Pick<Kind<never, never>, 'locatorOf' | 'requiredFields'>,
  items: readonly Item[],
): Translation {
  const isComplete = (item: Item) =>
    item.gone === true || requiredFields.every((field) => item[field as keyof Item] !== undefined);
  return itemsOrReferences(items, isComplete, (item) => referenceTo({ locatorOf }, item));
}

export function referenceTo(
  { locatorOf }: Pick<Kind<never, never>, 'locatorOf'>,
  item: Item | ItemIdentity,
): ItemReference {
  const [container, name = ''] =
    item.kind === 'pull_request' ? [item.repoId, item.repoName] : [item.containerId, item.containerName];
  const id = item.key.slice(item.key.lastIndexOf(':') + 1);
  const locator = locatorOf({ container, name, number: item.identifier.replace('#', ''), id });
  return { kind: item.kind, key: item.key, locator };
}
