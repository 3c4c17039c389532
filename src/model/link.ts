import type { ItemKey } from './item.ts';

/** A link connects an item with a task, and has the reason why it exists. */
export interface LinkReason {
  /** Name of the rule that matched, for example `task-key`. */
  readonly rule: string;
  /** The field in which the text was found: `branch`, `title`, … */
  readonly place: string;
  /** The text that matched, unchanged. */
  readonly text: string;
  readonly intent: Intent;
  /** The item that the text names, if the task belongs to that item. */
  readonly via?: ItemKey;
  /** The text uses a former name of that item. */
  readonly isFormerName?: true;
  /** How strongly the texts of the item name the task. Absent: they only mention it. */
  readonly strength?: 'closing' | 'carrying';
  /** The place that makes it carrying, if that is another one than `place`. */
  readonly carriedBy?: string;
  /** The provider's time of the state whose text named the task first, epoch milliseconds. */
  readonly namedAt?: number;
  /** The delivery that brought the text; absent if it was purged from memory. */
  readonly delivery?: number;
}

/** The relation between the item whose text this is and the item or task that it names. */
export type Intent = 'closes' | 'mentions';

/** `externalId` of a link that worksync created: `worksync:<item key>`. */
const MARK = 'worksync:';

export function externalIdOf(itemKey: string): string {
  return MARK + itemKey;
}

/** Whether worksync created the link. A link with another or no `externalId` was made by hand and is never removed. */
export function isAutomatic(externalId: string | null | undefined): boolean {
  return externalId?.startsWith(MARK) ?? false;
}

/**
 * How people name the items of a vendor in texts, as data. The connector contributes it, the link rules read it.
 * Words are in lower case; a phrase may contain spaces.
 */
export interface Grammar {
  /** Words before a name which say that the work ends the item. */
  readonly closing: readonly string[];
  /** Words before a name which only refer to the item. */
  readonly mentioning?: readonly string[];
  /** Words before a name which exclude it: the text creates no link. */
  readonly suppressing?: readonly string[];
  /**
   * The names to which one closing word applies: the next one, or each name of a list (`Fixes ENG-1, DES-5 and ENG-6`).
   * With `next`, the further names of a list are mentions.
   */
  readonly closes: 'next' | 'list';
  /** Forms of names, besides web addresses, which are always understood. */
  readonly names: readonly NameForm[];
  /** A name counts only after a closing or mentioning word, and in a list after one. Addresses need no word. */
  readonly needsWord?: boolean;
  /**
   * Addresses of items, for example `//{host}/{path}/-/issues/{number}`. Each inner list has the spellings of one address;
   * all of them name the item that the first one names. `{number}` and `{key}` are those of the item, `{host}` is the
   * connection's own host and `{site}` any host, `{path}` takes one segment or more, any other name takes one, and `…` takes
   * any number.
   */
  readonly addresses?: readonly (readonly string[])[];
  /** A branch that begins with a number and a hyphen names the item of that number in the same project. */
  readonly branchNumbers?: boolean;
}

/**
 * key            `ENG-12`: an upper-case word, a hyphen, a number.
 * short-id       `BACKEND-1A`: as a key, with letters in the number.
 * number         `#12` within the project, `group/project#12` from anywhere on the host.
 * host-number    `#12`, counted over all projects of the host.
 * A text that ends in `#`, such as `AB#`: the prefix of a number that is counted over all projects.
 * A text that ends in `-`, such as `sc-`: the same, or beside `number` another way to write `#`. A prefix in lower case
 * is read in any case.
 */
export type NameForm = 'key' | 'short-id' | 'number' | 'host-number' | `${string}#` | `${string}-`;
