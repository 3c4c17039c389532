/**
 * How a vendor's people name its items in text, as data: the connector contributes it, the link rules read it. Words are
 * in lower case; a phrase may hold spaces.
 */
export interface Grammar {
  /** Words before a name that say that the work ends the item. */
  readonly closing: readonly string[];
  /** Words that say no more than that the item is meant. */
  readonly mentioning?: readonly string[];
  /** Words that take the name back: nothing is linked by this text. */
  readonly suppressing?: readonly string[];
  /**
   * What one closing word closes: the name behind it, or all of a list (`Fixes ENG-1, DES-5 and ENG-6`). Elsewhere in the
   * list a name is mentioned.
   */
  readonly closes: 'next' | 'list';
  /** How items are written, beside their web address, which is always understood. */
  readonly names: readonly NameForm[];
  /** A name counts only behind a closing or mentioning word, and in its list. */
  readonly needsWord?: boolean;
  /** Paths between a project's address and an item's number, for example `/-/issues/`. */
  readonly itemPaths?: readonly string[];
  /** A branch that begins with a number and a hyphen names the item of that number in the same project. */
  readonly branchNumbers?: boolean;
}

/**
 * key            `ENG-12`: an upper-case word, a hyphen, a number.
 * short-id       `BACKEND-1A`: the same with letters in the number.
 * number         `#12` within the project, `group/project#12` from anywhere on the host.
 * host-number    `#12`, counted over all projects of the host.
 * A text that ends in `#`  `AB#`: what stands before the number, counted over all projects.
 */
export type NameForm = 'key' | 'short-id' | 'number' | 'host-number' | `${string}#`;

/** What the text wants of an item that it names. */
export type Intent = 'closes' | 'mentions';
