import type { Intent } from './grammar.ts';
import type { ItemKey } from './item.ts';

/** A link connects an item with a task, and has the reason why it exists. */
export interface LinkReason {
  /** Name of the rule that matched, for example `task-key`. */
  readonly rule: string;
  /** Where the text stood: `branch`, `title`, … */
  readonly place: string;
  /** The text that matched, as it stood. */
  readonly text: string;
  readonly intent: Intent;
  /** The item that the text names, where the task is that item's. */
  readonly via?: ItemKey;
  /** The text names that item by a former name of it. */
  readonly isFormerName?: true;
  /** The delivery with which the text came; absent where it was purged from memory. */
  readonly delivery?: number;
}

/** What marks a work-item link of the workspace as ours: `worksync:<item key>`. */
const MARK = 'worksync:';

export function externalIdOf(itemKey: string): string {
  return MARK + itemKey;
}

/** A link with another or no `externalId` was made by hand and is never removed. */
export function isAutomatic(externalId: string | null | undefined): boolean {
  return externalId?.startsWith(MARK) ?? false;
}
