import type { Translation } from '../../connectors/connector.ts';
import type { Delivery } from '../../model/delivery.ts';
import type { Item, ItemReference } from '../../model/item.ts';
import type { Grammar } from '../../model/link.ts';
import type { StoredBody } from '../../store/bodies.ts';
import type { Vendor } from './desired.ts';

/** One connection as reconcile needs it: only pure functions. */
export interface Source {
  readonly connection: string;
  readonly vendor: Vendor;
  /** Whether its pull requests are recorded in the workspace, where the workspace has a route for it. */
  readonly records: boolean;
  /** How people name its items. */
  readonly grammar?: Grammar;
  /** What is written to the vendor; absent: nothing. */
  readonly writeBack?: {
    readonly comment: boolean;
    readonly close: boolean;
    readonly status: boolean | 'require';
  };
  /** Whether its fetches bring messages of commits, which no delivery carries. */
  readonly fetchesCommits?: boolean;
  translate(delivery: Delivery): Translation;
  /** For what is large or suspected; absent: all is read at once. */
  readonly aside?: WorkerTranslator;
  reference(item: Item): ItemReference;
  /** The same, and tells nobody what it saw of names: for people who look at old deliveries. */
  readonly quiet?: Pick<Source, 'translate' | 'aside'>;
}

/** Reads bodies off the main thread, within a budget of time and memory. Throws what reading throws, and `over_budget`. */
export interface WorkerTranslator {
  translate(delivery: Pick<Delivery, 'source' | 'event'> & { readonly stored: StoredBody }): Promise<Translation>;
  /** Each element of a page as a page of its own. Empty where the body is no page. */
  parts(stored: StoredBody): Promise<readonly PagePart[]>;
}

export interface PagePart {
  readonly body: Uint8Array;
  /** SHA-256 of the element, hexadecimal. */
  readonly content: string;
}

/** The configured connections by name. */
export type Sources = ReadonlyMap<string, Source>;

/** The conditions of one transaction of reconcile. */
export interface EvaluationContext {
  /** Wall clock, epoch milliseconds. */
  readonly now: number;
  /** u, the used share of the long quota window, 0..1. */
  readonly usedShare: number;
  /** Promised, milliseconds; absent where none is. */
  readonly visibility?: number;
  /** The prefixes of this workspace's task ids; absent: the usual ones. */
  readonly idPrefixes?: readonly string[];
}
