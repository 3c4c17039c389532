import { type ZodType, z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import { type Item, type ItemReference, pullRequestKey, type WorkItem, workItemKey } from '../../model/item.ts';
import type { PostedComment } from '../../model/notice.ts';
import type { Translation } from '../connector.ts';
import { omitUndefined, read } from './payload.ts';

/** Returns the identity of a work item: by the vendor's own id, which survives moves. */
export function identityOf(
  connector: string,
  host: string,
  { id, container, identifier }: { readonly id: string; readonly container: string; readonly identifier: string },
) {
  const key = workItemKey(connector, host, id);
  return { kind: 'work_item' as const, key, connector, host, containerId: container, identifier };
}

/** Returns the identity of a pull request. Numbers are unique within a repository only, so its id is part of the key. */
export function pullIdentityOf(
  connector: string,
  host: string,
  repository: { readonly id: number | string; readonly name?: string },
  number: number,
) {
  const repoId = String(repository.id);
  const identifier = String(number);
  const key = pullRequestKey(connector, host, repoId, identifier);
  const repoName = omitUndefined({ repoName: repository.name });
  return { kind: 'pull_request' as const, key, connector, host, repoId, ...repoName, identifier };
}

/** The methods of a connector that the engines implement; a vendor provides the rest. */
export type EngineMethods = 'translate' | 'reference' | 'namesIn' | 'mayCover' | 'git' | 'connect';

/** The names of the rows that polls and fetches store. @param noun for example `issues`, for `issues.list` */
export function rowNames(noun: string) {
  return {
    list: `${noun}.list`,
    item: `${noun}.get`,
    gone: `${noun}.gone`,
    /** A fetched item whose scope `translate` must still check. The stored name is older than this one. */
    scopeUnchecked: `${noun}.judged`,
    /** The result of a fetch that found nothing, for an item that is not stored. */
    missing: `${noun}.missing`,
  };
}

export const NOT_FOUND: Translation = { outcome: 'ignored', reason: 'not_found' };

export const NOT_FOLLOWED: Translation = { outcome: 'ignored', reason: 'event_not_followed' };

/**
 * @param word the vendor's word for a container of items
 * @param item the item, if the delivery identifies it, and dates its state
 */
export function outOfScope(word: string, item?: WorkItem): Translation {
  const ignored = { outcome: 'ignored', reason: `${word}_not_in_scope` } as const;
  if (!item) return ignored;
  const { kind, key, connector, host, containerId, containerName, identifier, updatedAt, version } = item;
  const identity = { kind, key, connector, host, containerId, identifier, updatedAt };
  const movedAway = containerName ?? containerId;
  return { ...ignored, outside: { ...identity, ...omitUndefined({ version, containerName }), movedAway } };
}

export function itemsOrReferences<Some extends Item>(
  items: readonly Some[],
  isComplete: (item: Some) => boolean,
  reference: (item: Some) => ItemReference,
): Translation {
  const references = items.filter((item) => !isComplete(item)).map(reference);
  if (references.length === 0) return { outcome: 'items', items };
  const complete = items.filter(isComplete);
  if (complete.length === 0) return { outcome: 'references', references };
  return { outcome: 'items', items: complete, references };
}

/** The part of a locator that means: the webhook does not report whether the item is in scope. Read it by `mustCheckScope`. */
export interface ScopeUnknown {
  /** A stored key, and no boolean: present only if the scope is unknown. */
  readonly isFollowed?: 'unknown' | undefined;
}

export const SCOPE_UNKNOWN = { isFollowed: 'unknown' } as const;

export function mustCheckScope({ isFollowed }: ScopeUnknown): boolean {
  return isFollowed !== undefined;
}

export const scopeUnknown = z.literal('unknown').optional();

/** The result of a read by id. If nothing is found, and the item may only be hidden, the engine reads its container. */
export interface Lookup {
  readonly found?: unknown;
  readonly isGone?: boolean;
}

/** Parses the locator of a reference. Throws `internal`, because only the connector itself creates references. */
export function readLocator<Shape>(expected: ZodType<Shape>, reference: ItemReference): Shape {
  const result = expected.safeParse(reference.locator);
  if (result.success) return result.data;
  throw new SyncError('internal', `the reference to ${reference.key} cannot be fetched`);
}

interface ClosingFacts {
  readonly isDropped?: boolean | undefined;
  readonly closedAt?: string | null | undefined;
}

/**
 * Returns how and when a work item was closed. The state decides, because vendors keep these facts when somebody reopens it. Returns
 * nothing if the state is unknown.
 */
export function closingOf(state: WorkItem['state'], facts: ClosingFacts): ClosingFacts {
  if (state === undefined) return {};
  return state === 'done' ? facts : { isDropped: false, closedAt: null };
}

/** The facts that a tracker's webhook reports about one item. */
export interface WebhookFacts extends ScopeUnknown {
  readonly id: string;
  readonly identifier?: string | undefined;
  /** Without the container's name, `translate` cannot check whether it is in scope. */
  readonly container?: { readonly id: string; readonly name?: string | undefined } | undefined;
  /** The item at that time; without one it is fetched. */
  readonly item?: WorkItem;
  /** When it ceased to exist, epoch milliseconds. */
  readonly goneAt?: number;
  /** When it was changed, epoch milliseconds, if the webhook reports that without the item. */
  readonly changedAt?: number | undefined;
  /** The comment that the webhook reports; a comment of worksync needs no fetch. */
  readonly comment?: PostedComment | undefined;
}

/** One field that identifies a tracker's item, and its names in stored rows. The names never change, because rows outlive versions. */
export interface StoredField {
  /** Checks a stored value like input from outside, because it becomes part of addresses. */
  readonly shape: ZodType<string, string>;
  /** Its name in the locator of a reference. */
  readonly locator: string;
  /** Its name in the row of an item that is gone. */
  readonly gone: string;
}

/** The fields that identify a tracker's items. */
export interface StoredFields {
  readonly id: string;
  readonly itemId: StoredField;
  readonly containerId: StoredField;
  /** The name that people use for an item; a function if it follows from the id. */
  readonly identifier: StoredField | ((id: string) => string);
}

/** The id by which an item is fetched, and the facts that remain if it is gone. */
export interface Locator extends ScopeUnknown {
  readonly id: string;
  /** Absent if a webhook did not report it. */
  readonly container?: string | undefined;
  readonly identifier?: string | undefined;
}

/** An item that no longer exists. */
interface GoneItem {
  readonly id: string;
  readonly container: string;
  readonly identifier: string;
  readonly seenAt: string;
  /** Its container, if `translate` must still check the scope. */
  readonly place?: unknown;
}

/** Returns the reference to an item: the id to fetch it by, and the facts that describe it in case it is gone. */
export function referenceOf(fields: StoredFields, { key, containerId, identifier }: WorkItem): ItemReference {
  return referenceTo(fields, key, { id: key.slice(key.lastIndexOf(':') + 1), container: containerId, identifier });
}

/**
 * Returns the reference for a webhook that only reports which item it concerns. Without the container, `translate` checks the
 * scope of the fetched item.
 */
export function webhookReference(fields: StoredFields, host: string, facts: WebhookFacts): ItemReference {
  const { id, container, identifier, isFollowed } = facts;
  const isIdentified = container !== undefined && (identifier !== undefined || typeof fields.identifier === 'function');
  const known = isIdentified ? { container: container.id, identifier, isFollowed } : SCOPE_UNKNOWN;
  return referenceTo(fields, workItemKey(fields.id, host, id), { id, ...known });
}

function referenceTo(fields: StoredFields, key: ItemReference['key'], facts: Locator): ItemReference {
  const named = storedFacts(fields).map(([fact, { locator }]) => [locator, facts[fact]] as const);
  const locator = omitUndefined({ ...Object.fromEntries(named), isFollowed: facts.isFollowed });
  return { kind: 'work_item', key, locator: locator as Record<string, string> };
}

/** Parses the locator of a tracker's reference. Throws `internal`. */
export function locatorOf(fields: StoredFields, reference: ItemReference): Locator {
  const shapes = storedFacts(fields).map(([fact, { locator, shape }]) => [
    locator,
    fact === 'id' ? shape : shape.optional(),
  ]);
  const shape = z.object({ ...Object.fromEntries(shapes), isFollowed: scopeUnknown });
  const { isFollowed, ...row } = readLocator(shape, reference);
  return { ...factsIn(fields, row, 'locator'), isFollowed: isFollowed as Locator['isFollowed'] };
}

export function rowOfGone(fields: StoredFields, { seenAt, place: project, ...facts }: GoneItem): object {
  const named = storedFacts(fields).map(([fact, field]) => [field.gone, facts[fact]]);
  return omitUndefined({ ...Object.fromEntries(named), project, seenAt });
}

/** Parses the row of an item that is gone. Accepts numbers as ids, because some trackers have such. Throws `delivery_malformed`. */
export function readGone(fields: StoredFields, payload: unknown): GoneItem {
  const text = z.union([z.string(), z.int().transform(String)]);
  const shapes = storedFacts(fields).map(([, { gone, shape }]) => [gone, text.pipe(shape)]);
  const shape = z.object({ ...Object.fromEntries(shapes), seenAt: z.iso.datetime(), project: z.unknown().optional() });
  const { seenAt, project: place, ...row } = read(shape, payload);
  return { ...factsIn(fields, row, 'gone'), seenAt: seenAt as string, place };
}

/** Returns the stored fields, each with the fact that it contains. An identifier that follows from the id is not stored. */
function storedFacts({
  itemId,
  containerId,
  identifier,
}: StoredFields): readonly (readonly ['id' | 'container' | 'identifier', StoredField])[] {
  const ids = [['id', itemId] as const, ['container', containerId] as const];
  return typeof identifier === 'function' ? ids : [...ids, ['identifier', identifier]];
}

function factsIn(fields: StoredFields, row: Readonly<Record<string, unknown>>, names: 'locator' | 'gone') {
  const facts = Object.fromEntries(storedFacts(fields).map(([fact, field]) => [fact, row[field[names]]]));
  const { identifier } = fields;
  return (typeof identifier === 'function' ? { ...facts, identifier: identifier(facts['id'] as string) } : facts) as {
    readonly id: string;
    readonly container: string;
    readonly identifier: string;
  };
}
