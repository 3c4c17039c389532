import { appendDeliveries } from '../../src/store/append-deliveries.ts';
import type { Store } from '../../src/store/database.ts';
import { ITEMS } from './known-items.ts';
import { pullObject } from './pulls.ts';

/** Pull requests of one page. */
export const PAGE = 100;

interface Telling {
  readonly items?: number;
  readonly source?: 'poll' | 'backfill';
  /** They say something else than is known already. */
  readonly isNew?: boolean;
}

/** Pages that tell of all items, or of the first so many, as if their vendor listed them. */
export async function appendPages(
  { query }: Pick<Store, 'query'>,
  { items = ITEMS, source = 'poll', isNew = false }: Telling = {},
): Promise<void> {
  for (let first = 1; first <= items; first += PAGE) {
    const pulls = Array.from({ length: PAGE }, (_, index) => told(first + index, isNew));
    const body = Buffer.from(JSON.stringify(pulls));
    const key = `page-${isNew ? 'new-' : ''}${first}`;
    await appendDeliveries(query, [{ connection: 'github', key, source, event: 'pulls.list', body }], Date.now());
  }
}

function told(number: number, isNew: boolean): object {
  const pull = pullObject(number);
  if (!isNew) return pull;
  const updated_at = new Date(Date.parse(pull.updated_at) + 1_000).toISOString();
  return { ...pull, updated_at, title: `${pull.title}, and of earlier ones` };
}
