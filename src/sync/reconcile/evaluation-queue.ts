import type { Item, ItemKey } from '../../model/item.ts';
import { piecesOf } from '../../platform/lib/pieces.ts';
import { findItems, readFields } from '../../store/items.ts';
import { runSequentially } from '../../store/unit-of-work/unit-of-work.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { Cause } from './changes.ts';
import type { EvaluationContext, Source, Sources } from './context.ts';
import { type Evaluated, evaluate } from './evaluate.ts';
import type { Rules } from './item-rules.ts';
import type { KeyHorizon } from './key-horizon.ts';

/** Items that are evaluated in one go. */
const EVALUATED = 500;

/** An item that a delivery of the batch has changed. */
export interface Changed {
  readonly item: Item;
  readonly source: Source;
  readonly cause: Cause;
}

type Unknown = Pick<Evaluated, 'unknownKeys' | 'unknownIds'>;

/** Which items a batch looks at, and in which order: those that it changed, those that answers concern, those that these tell. */
export class EvaluationQueue {
  evaluated = 0;
  /** Those that may become tasks. */
  readonly workItems: ItemKey[] = [];
  readonly #query: Scope;
  readonly #by: { readonly moment: EvaluationContext; readonly rules: Rules; readonly sources: Sources };
  /** The items that name what is no cached task. */
  readonly #unknown = new Map<ItemKey, Unknown>();
  /** Items to look at again because of what the workspace said. */
  readonly #again = new Set<ItemKey>();
  /** Items to look at again because of what a round of the workspace sweep found: nobody waits for them. */
  readonly #swept = new Set<ItemKey>();
  /** Items to look at again because they name a work item whose tasks have changed. */
  readonly #told = new Set<ItemKey>();

  constructor(
    query: Scope,
    by: { readonly moment: EvaluationContext; readonly rules: Rules; readonly sources: Sources },
  ) {
    this.#query = query;
    this.#by = by;
  }

  lookAt(key: ItemKey, isSweep = false): void {
    (isSweep ? this.#swept : this.#again).add(key);
  }

  /** Items that name what may be a new task. An id says nothing of that: one named for the first time is looked for once. */
  naming(horizon: KeyHorizon): readonly ItemKey[] {
    const isNew = ({ unknownKeys, unknownIds }: Unknown) =>
      unknownIds.length > 0 || unknownKeys.some((key) => horizon.mayBeNew(key));
    return [...this.#unknown].filter(([, unknown]) => isNew(unknown)).map(([key]) => key);
  }

  /** @param changed by the key of the item */
  async evaluate(changed: ReadonlyMap<ItemKey, Changed>): Promise<void> {
    await this.#evaluate([...changed.values()]);
    await this.#lookAgain([...this.#again].filter((key) => !changed.has(key)));
    const isLookedAt = (key: ItemKey) => changed.has(key) || this.#again.has(key);
    await this.#lookAgain(
      [...this.#swept].filter((key) => !isLookedAt(key)),
      true,
    );
    // Re-evaluating them may lead to others.
    for (let looked = 0; looked < this.#told.size; ) {
      const told = [...this.#told].slice(looked);
      looked = this.#told.size;
      await this.#lookAgain(told);
    }
  }

  async #lookAgain(keys: readonly ItemKey[], isSweep = false): Promise<void> {
    const cause = { since: this.#by.moment.now, waiting: [], isSweep };
    for (const some of piecesOf(keys, EVALUATED)) {
      const rows = await findItems(this.#query, some);
      await this.#evaluate(
        rows.flatMap((row) => {
          const source = this.#by.sources.get(row.connection);
          return source && row.unverified === 0 ? [{ item: readFields(row).item, source, cause }] : [];
        }),
      );
    }
  }

  async #evaluate(looks: readonly Changed[]): Promise<void> {
    this.evaluated += looks.length;
    for (const { item } of looks) if (item.kind === 'work_item') this.workItems.push(item.key);
    const works = looks.map((look) => async (query: Scope) => ({
      key: look.item.key,
      ...(await evaluate({ query, ...look, ...this.#by })),
    }));
    for (const { key, unknownKeys, unknownIds, again } of await runSequentially(this.#query, works)) {
      if (unknownKeys.length + unknownIds.length > 0) this.#unknown.set(key, { unknownKeys, unknownIds });
      for (const told of again) this.#told.add(told);
    }
  }
}
