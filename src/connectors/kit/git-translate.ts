import type { ZodType } from 'zod';
import type { Delivery } from '../../model/delivery.ts';
import type { Item, ItemReference } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import type { GitVendor, Identity, Kind, Unjudged } from './git-vendor.ts';
import { read, readJson } from './json.ts';
import { itemsOrReferences, NOT_FOLLOWED, NOT_FOUND, outOfScope } from './outcome.ts';
import { rowNames } from './row-names.ts';

type Translator<Options> = (payload: unknown, options: Options) => Translation;

/** Pure. Throws `delivery_malformed` for a body that is not what its event promises. */
export function createTranslate<Options extends { readonly commits: boolean }, Locator extends Unjudged>(
  vendor: GitVendor<Options, Locator>,
) {
  const { payloadOf = readJson } = vendor;
  const ofRead = new Map(vendor.kinds.flatMap((kind) => readsOf(vendor, kind)));
  return ({ source, event, body }: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation => {
    if (source === 'webhook') return vendor.told(event, options)?.(payloadOf(body), options) ?? NOT_FOLLOWED;
    return ofRead.get(event)?.(readJson(body), options) ?? NOT_FOLLOWED;
  };
}

/** worksync asked for pages and fetched objects, so they are in scope, also under a repository's new name. */
function readsOf<Options extends { readonly commits: boolean }, Locator extends Unjudged>(
  vendor: GitVendor<Options, Locator>,
  kind: Kind<Options, Locator>,
): readonly (readonly [string, Translator<Options>])[] {
  const names = rowNames(kind.noun);
  const toItem = (item: Item): Translation => ({ outcome: 'items', items: [item] });
  return [
    [names.list, (page, options) => taken(kind, kind.itemsOn(page, options))],
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
export function goneBy<Row extends { readonly seen_at: string }, Options>(
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
export function taken({ locatorOf, whole }: Named, items: readonly Item[]): Translation {
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
