import type { ItemKey, ItemReference } from '../../model/item.ts';
import type { PendingDelivery } from '../../store/inbox.ts';
import { findItem, readFields } from '../../store/items.ts';
import { requestFetch } from '../../store/wanted-fetches.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { EvaluationContext, Sources } from './context.ts';

/** The objects that a batch asks for, since its deliveries do not tell all of them. */
export class BatchFetches {
  asked = 0;
  readonly #query: Scope;
  readonly #moment: EvaluationContext;
  readonly #sources: Sources;

  constructor(query: Scope, moment: EvaluationContext, sources: Sources) {
    this.#query = query;
    this.#moment = moment;
    this.#sources = sources;
  }

  /** @param isCovered a fetch that waits, or is under way, brings what is wanted, or shows that it must be asked for anew */
  async ask({ connection, id }: PendingDelivery, reference: ItemReference, isCovered = false): Promise<void> {
    this.asked++;
    await requestFetch(this.#query, { connection, reference, deliveryId: id, now: this.#moment.now, isCovered });
  }

  /** By the connection that it came through. @returns whether there is one */
  async askFor({ id }: PendingDelivery, key: ItemKey, query = this.#query): Promise<boolean> {
    const row = await findItem(query, key);
    const source = row && this.#sources.get(row.connection);
    if (!source) return false;
    const { connection, reference } = { ...row, reference: source.reference(readFields(row).item) };
    await requestFetch(query, { connection, reference, deliveryId: id, now: this.#moment.now });
    return true;
  }
}
