import { type ZodType, z } from 'zod';
import { type ItemReference, type WorkItem, workItemKey } from '../../model/item.ts';
import { present } from './fields.ts';
import { read } from './json.ts';
import { readLocator } from './locator.ts';
import { UNJUDGED, unjudged } from './outcome.ts';
import type { Locator, Part, Told, Tracker } from './tracker-vendor.ts';

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
export function referenceToTold(parts: Parts, host: string, told: Told): ItemReference {
  const { id, container, identifier, isFollowed } = told;
  const isKnown = container !== undefined && (identifier !== undefined || typeof parts.identifier === 'function');
  const known = isKnown ? { container: container.id, identifier, isFollowed } : UNJUDGED;
  return referenceTo(parts, workItemKey(parts.id, host, id), { id, ...known });
}

function referenceTo(parts: Parts, key: ItemReference['key'], given: Locator): ItemReference {
  const { id, container, identifier, isFollowed } = given;
  const named = [[parts.itemId.locator, id] as const, [parts.containerId.locator, container] as const];
  if (typeof parts.identifier !== 'function') named.push([parts.identifier.locator, identifier]);
  const locator = present(Object.fromEntries([...named, ['isFollowed', isFollowed]])) as Record<string, string>;
  return { kind: 'work_item', key, locator };
}

export function locatorOf({ itemId, containerId, identifier }: Parts, reference: ItemReference): Locator {
  const shape = z.object({
    [itemId.locator]: itemId.shape,
    [containerId.locator]: containerId.shape.optional(),
    ...(typeof identifier === 'function' ? {} : { [identifier.locator]: identifier.shape.optional() }),
    isFollowed: unjudged,
  }) as unknown as ZodType<Readonly<Record<string, string | undefined>>>;
  const row = readLocator(shape, reference);
  const id = row[itemId.locator] as string;
  return {
    id,
    container: row[containerId.locator],
    identifier: typeof identifier === 'function' ? identifier(id) : row[identifier.locator],
    isFollowed: row['isFollowed'] as Locator['isFollowed'],
  };
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

export function rowOfGone({ itemId, containerId, identifier }: Parts, gone: Gone): object {
  return present({
    [itemId.gone]: gone.id,
    ...(typeof identifier === 'function' ? {} : { [identifier.gone]: gone.identifier }),
    [containerId.gone]: gone.container,
    project: gone.place,
    seenAt: gone.seenAt,
  });
}

/** Throws `delivery_malformed`. Rows of older versions contain some ids as numbers. */
export function readGone({ itemId, containerId, identifier }: Parts, payload: unknown): Gone {
  const text = ({ shape }: Part) => z.union([z.string(), z.int().transform(String)]).pipe(shape);
  const shape = z.object({
    [itemId.gone]: text(itemId),
    [containerId.gone]: text(containerId),
    ...(typeof identifier === 'function' ? {} : { [identifier.gone]: identifier.shape }),
    seenAt: z.iso.datetime(),
    project: z.unknown().optional(),
  }) as unknown as ZodType<Readonly<Record<string, string>>>;
  const row = read(shape, payload);
  const id = row[itemId.gone] as string;
  return {
    id,
    container: row[containerId.gone] as string,
    identifier: typeof identifier === 'function' ? identifier(id) : (row[identifier.gone] as string),
    seenAt: row['seenAt'] as string,
    place: row['project'],
  };
}
