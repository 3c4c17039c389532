import { type ZodType, z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import { type Item, type ItemReference, pullRequestKey, type WorkItem, workItemKey } from '../../model/item.ts';
import type { PostedComment } from '../../model/notice.ts';
import type { Translation } from '../connector.ts';
import { omitUndefined, read } from './payload.ts';

/** Of a work item: by the vendor's own id, which survives moves. */
export function identityOf(
  connector: string,
  host: string,
  { id, container, identifier }: { readonly id: string; readonly container: string; readonly identifier: string },
) {
  const key = workItemKey(connector, host, id);
  return { kind: 'work_item' as const, key, connector, host, containerId: container, identifier };
}

/** Of a pull request: its number is unique within its repository only, so the repository's id is part of the key. */
export function pullIdentityOf(
  connector: string,
  host: string,
  { id, name }: { readonly id: number | string; readonly name?: string },
  number: number,
) {
  const [repoId, identifier] = [String(id), String(number)];
  const key = pullRequestKey(connector, host, repoId, identifier);
  return {
    kind: 'pull_request' as const,
    key,
    connector,
    host,
    repoId,
    ...omitUndefined({ repoName: name }),
    identifier,
  };
}

/**
 * The part of a locator that says: the webhook did not tell whether this is in scope. `fetch` then marks what it gets, so
 * that `translate` judges it.
 */
export const SCOPE_UNKNOWN = { isFollowed: 'unknown' } as const;

export const scopeUnknown = z.literal('unknown').optional();

/** The outcome of a fetch that found nothing, of an item that worksync does not have. */
export const NOT_FOUND: Translation = { outcome: 'ignored', reason: 'not_found' };

export const NOT_FOLLOWED: Translation = { outcome: 'ignored', reason: 'event_not_followed' };

/** @param word the vendor's word for a container of items */
export function outOfScope(word: string): Translation {
  return { outcome: 'ignored', reason: `${word}_not_in_scope` };
}

/** The items that have all they need, and references to the others. */
export function itemsOrReferences<Some extends Item>(
  items: readonly Some[],
  isWhole: (item: Some) => boolean,
  reference: (item: Some) => ItemReference,
): Translation {
  const references = items.filter((item) => !isWhole(item)).map(reference);
  if (references.length === 0) return { outcome: 'items', items };
  const whole = items.filter(isWhole);
  return whole.length === 0 ? { outcome: 'references', references } : { outcome: 'items', items: whole, references };
}

/**
 * The names of the rows that polls and fetches bring.
 *
 * @param noun what is listed: `issues` in `issues.list`
 */
export function rowNames(noun: string) {
  return {
    list: `${noun}.list`,
    item: `${noun}.get`,
    gone: `${noun}.gone`,
    judged: `${noun}.judged`,
    missing: `${noun}.missing`,
  };
}

/** What a reference points at. Throws `internal`: the connector itself makes references, of nothing but ids and names. */
export function readLocator<Known>(expected: z.ZodType<Known>, reference: ItemReference): Known {
  const result = expected.safeParse(reference.locator);
  if (result.success) return result.data;
  throw new SyncError('internal', `the reference to ${reference.key} cannot be fetched`);
}

/** One thing that an item is known by, and how rows name it. Rows wait in databases, so these names never change. */
export interface StoredField {
  /** Checks what a row contains like input from outside, since addresses are made of it. */
  readonly shape: ZodType<string, string>;
  /** In the locator of a reference. */
  readonly locator: string;
  /** In the object that `fetch` writes for an item that no longer exists. */
  readonly gone: string;
}

/** The names by which an item is fetched, and the remaining facts of one that is gone. */
export interface Locator {
  readonly id: string;
  /** Absent where a webhook did not tell it. */
  readonly container?: string | undefined;
  readonly identifier?: string | undefined;
  /** `unknown`: the webhook did not tell whether the item is in scope, so `translate` judges what is fetched. */
  readonly isFollowed?: 'unknown' | undefined;
}

/** What a webhook tells of one item. */
export interface WebhookFacts {
  readonly id: string;
  readonly identifier?: string | undefined;
  /** Its container. Without the container's name `translate` cannot judge whether that is in scope. */
  readonly container?: { readonly id: string; readonly name?: string | undefined } | undefined;
  /** Whether `translate` must judge what is fetched, although the webhook tells the container. */
  readonly isFollowed?: 'unknown';
  /** The item as it was at that time; without one it is fetched. */
  readonly item?: WorkItem;
  /** When it ceased to exist, epoch milliseconds. */
  readonly goneAt?: number;
  /** The comment that the webhook reports; one of ours is no news. */
  readonly comment?: PostedComment | undefined;
}

/** What a search by id brought. Where the item is not there and may only be hidden, the engine asks for its container. */
export interface Lookup {
  readonly found?: unknown;
  readonly isGone?: boolean;
}

/** What the engines write of a connector; a vendor says the rest. */
export type EngineMethods = 'translate' | 'reference' | 'namesIn' | 'fetchesCommits' | 'git' | 'connect';

/** `unknown`: the webhook did not tell whether the item is in scope, so `translate` judges what is fetched. */
export interface ScopeUnknown {
  readonly isFollowed?: 'unknown' | undefined;
}

/** How stored rows name the parts of a tracker's items: those to fetch one by, and those that remain of one that is gone. */
export interface StoredFields {
  /** Id of the connector. */
  readonly id: string;
  readonly itemId: StoredField;
  readonly containerId: StoredField;
  /** How people name an item; a function where that follows from its id. */
  readonly identifier: StoredField | ((id: string) => string);
}

/** What `fetch` needs to get this item: its id to find it, and the other parts to describe it in case it is gone. */
export function referenceOf(parts: StoredFields, { key, containerId, identifier }: WorkItem): ItemReference {
  return referenceTo(parts, key, { id: key.slice(key.lastIndexOf(':') + 1), container: containerId, identifier });
}

/**
 * The reference for a webhook that tells only which item it is about. Where it does not tell the container, `translate` judges
 * what is fetched.
 */
export function webhookReference(parts: StoredFields, host: string, told: WebhookFacts): ItemReference {
  const { id, container, identifier, isFollowed } = told;
  const isKnown = container !== undefined && (identifier !== undefined || typeof parts.identifier === 'function');
  const known = isKnown ? { container: container.id, identifier, isFollowed } : SCOPE_UNKNOWN;
  return referenceTo(parts, workItemKey(parts.id, host, id), { id, ...known });
}

/** The parts that rows name, each under what it tells. */
function namedParts({
  itemId,
  containerId,
  identifier,
}: StoredFields): readonly (readonly [keyof Gone & keyof Locator, StoredField])[] {
  const both = [['id', itemId] as const, ['container', containerId] as const];
  return typeof identifier === 'function' ? both : [...both, ['identifier', identifier]];
}

function referenceTo(parts: StoredFields, key: ItemReference['key'], given: Locator): ItemReference {
  const named = namedParts(parts).map(([fact, { locator }]) => [locator, given[fact]] as const);
  const locator = omitUndefined(Object.fromEntries([...named, ['isFollowed', given.isFollowed]])) as Record<
    string,
    string
  >;
  return { kind: 'work_item', key, locator };
}

export function locatorOf(parts: StoredFields, reference: ItemReference): Locator {
  const shapes = namedParts(parts).map(([fact, { locator, shape }]) => [
    locator,
    fact === 'id' ? shape : shape.optional(),
  ]);
  const shape = z.object({ ...Object.fromEntries(shapes), isFollowed: scopeUnknown });
  const { isFollowed, ...row } = readLocator(shape, reference);
  return { ...factsIn(parts, row, 'locator'), isFollowed: isFollowed as Locator['isFollowed'] };
}

/** What a row tells, by the names that it has for the parts. */
function factsIn(parts: StoredFields, row: Readonly<Record<string, unknown>>, by: 'locator' | 'gone') {
  const told = Object.fromEntries(namedParts(parts).map(([fact, part]) => [fact, row[part[by]]])) as Pick<Gone, 'id'>;
  const { identifier } = parts;
  return (typeof identifier === 'function' ? { ...told, identifier: identifier(told.id) } : told) as Gone;
}

/** An item that no longer exists, with its container where `translate` must still judge that. */
interface Gone {
  readonly id: string;
  readonly container: string;
  readonly identifier: string;
  /** RFC 3339. */
  readonly seenAt: string;
  readonly place?: unknown;
}

export function rowOfGone(parts: StoredFields, { seenAt, place: project, ...gone }: Gone): object {
  const named = namedParts(parts).map(([fact, part]) => [part.gone, gone[fact]]);
  return omitUndefined({ ...Object.fromEntries(named), project, seenAt });
}

/** Throws `delivery_malformed`. Some trackers have numbers as ids. */
export function readGone(parts: StoredFields, payload: unknown): Gone {
  const text = z.union([z.string(), z.int().transform(String)]);
  const shapes = namedParts(parts).map(([, { gone, shape }]) => [gone, text.pipe(shape)]);
  const shape = z.object({ ...Object.fromEntries(shapes), seenAt: z.iso.datetime(), project: z.unknown().optional() });
  const { seenAt, project: place, ...row } = read(shape, payload);
  return { ...factsIn(parts, row, 'gone'), seenAt: seenAt as string, place };
}
