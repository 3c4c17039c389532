import type { z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { ItemReference } from '../../model/item.ts';

/** What a reference points at. Throws `internal`: the connector itself makes references, of nothing but ids and names. */
export function readLocator<Known>(expected: z.ZodType<Known>, reference: ItemReference): Known {
  const result = expected.safeParse(reference.locator);
  if (result.success) return result.data;
  throw new SyncError('internal', `the reference to ${reference.key} cannot be fetched`);
}
