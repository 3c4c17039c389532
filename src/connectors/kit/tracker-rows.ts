import { z } from 'zod';
import { type ItemReference, type WorkItem, workItemKey } from '../../model/item.ts';
import { present } from './fields.ts';
import { read } from './json.ts';
import { readLocator } from './locator.ts';
import { UNJUDGED, unjudged } from './outcome.ts';
import type { Locator, Part, Tracker, WebhookFacts } from './tracker-vendor.ts';

/** How rows name the parts of a tracker's items: those to fetch one by, and those that remain of one that is gone. */
type Parts = Pick<Tracker<never, unknown, unknown>, 'id' | 'itemId' | 'containerId' | 'identifier'>;

/** What `fetch` needs to get this item: its id to find it, and the other parts to describe it in case it is gone. */
export function referenceOf(parts: Parts, { key, containerId, identifier }: WorkItem): ItemReference {
  return referenceTo(parts, key, { id: key.slice(key.lastIndexOf(':') + 1), container: containerId, identifier });
}

/**
 * The reference for a webhook that tells only which item it is about. Where it does not tell the container, `translate` judges
 * what is fetched.
 */
export function referenceToTold(parts: Parts, host: string, told: WebhookFacts): ItemReference {
  const { id, container, identifier, isFollowed } = told;
  const isKnown = container !== undefined && (identifier !== undefined || typeof parts.identifier === 'function');
  const known = isKnown ? { container: container.id, identifier, isFollowed } : UNJUDGED;
  return referenceTo(parts, workItemKey(parts.id, host, id), { id, ...known });
}

/** The parts that rows name, each under what it tells. */
function namedParts({
  itemId,
  containerId,
  identifier,
}: Parts): readonly (readonly [keyof Gone & keyof Locator, Part])[] {
  const both = [['id', itemId] as const, ['container', containerId] as const];
  return typeof identifier === 'function' ? both : [...both, ['identifier', identifier]];
}

function referenceTo(parts: Parts, key: ItemReference['key'], given: Locator): ItemReference {
  const named = namedParts(parts).map(([fact, { locator }]) => [locator, given[fact]] as const);
  const locator = present(Object.fromEntries([...named, ['isFollowed', given.isFollowed]])) as Record<string, string>;
  return { kind: 'work_item', key, locator };
}

export function locatorOf(parts: Parts, reference: ItemReference): Locator {
  const shapes = namedParts(parts).map(([fact, { locator, shape }]) => [
    locator,
    fact === 'id' ? shape : shape.optional(),
  ]);
  const shape = z.object({ ...Object.fromEntries(shapes), isFollowed: unjudged });
  const { isFollowed, ...row } = readLocator(shape, reference);
  return { ...factsIn(parts, row, 'locator'), isFollowed: isFollowed as Locator['isFollowed'] };
}

/** What a row tells, by the names that it has for the parts. */
function factsIn(parts: Parts, row: Readonly<Record<string, unknown>>, by: 'locator' | 'gone') {
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

export function rowOfGone(parts: Parts, { seenAt, place: project, ...gone }: Gone): object {
  const named = namedParts(parts).map(([fact, part]) => [part.gone, gone[fact]]);
  return present({ ...Object.fromEntries(named), project, seenAt });
}

/** Throws `delivery_malformed`. Some trackers have numbers as ids. */
export function readGone(parts: Parts, payload: unknown): Gone {
  const text = z.union([z.string(), z.int().transform(String)]);
  const shapes = namedParts(parts).map(([, { gone, shape }]) => [gone, text.pipe(shape)]);
  const shape = z.object({ ...Object.fromEntries(shapes), seenAt: z.iso.datetime(), project: z.unknown().optional() });
  const { seenAt, project: place, ...row } = read(shape, payload);
  return { ...factsIn(parts, row, 'gone'), seenAt: seenAt as string, place };
}
