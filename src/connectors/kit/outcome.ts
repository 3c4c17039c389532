import type { Item, ItemReference } from '../../model/item.ts';
import type { Translation } from '../connector.ts';

/** Items that can be taken as they are, and references to those that cannot. */
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
