import type { ZodType } from 'zod';
import type { Item, PullRequest, WorkItem } from '../../model/item.ts';
import type { Seen } from '../../model/names.ts';
import type { Connection, ConnectionDeps, Connector, Hooks, Known, SweepPage, Translation } from '../connector.ts';
import type { GitChecks } from './git-check.ts';
import type { GitWrites } from './git-writes.ts';
import type { Scope } from './scope.ts';
import type { Looked } from './tracker-vendor.ts';
import type { Listed, Walk, Wanted } from './walk.ts';

/** What an item is known by. */
export interface Parts {
  /** Of its repository: the id, and what it was called. */
  readonly container: string;
  readonly name: string;
  readonly number: string;
  /** Its own id, of those that have one. */
  readonly id: string;
}

/**
 * One kind of thing that a git provider lists in each of its repositories: its pull requests, or its issues.
 * Names and shapes of what is stored never change, since rows wait in databases.
 */
export interface Kind<Options, Locator> extends Pick<Walk, 'order' | 'changedAt' | 'isConditional'> {
  readonly kind: Item['kind'];
  /** Before the names of what polls and fetches bring: `pulls` in `pulls.list`. */
  readonly noun: string;
  /** What comes back from a row is checked like what comes from outside: no address is made of anything else. */
  readonly locator: ZodType<Locator>;
  locatorOf(parts: Parts): Readonly<Record<string, string>>;
  /** The items of a stored page. Throws `delivery_malformed`, like those below. */
  itemsOn(page: unknown, options: Options): readonly Item[];
  /** Fields without which what a list or a webhook tells is fetched: it has drifted. */
  readonly whole: readonly (keyof PullRequest | keyof WorkItem)[];
  itemOf(fetched: unknown, options: Options): Item;
  /** How an item that exists no more is written, and read. */
  rowOfGone(locator: Locator, seenAt: string): object;
  goneOf(row: unknown, options: Options): Item;
}

export type Identity = Omit<PullRequest, 'updatedAt'> | Omit<WorkItem, 'updatedAt'>;

/** What is asked of one of the lists of a repository. */
export interface WantedOf extends Wanted {
  readonly noun: string;
}

/** What talks to the vendor. What it lists and finds is cut down to what is read. Every method throws `SyncError`. */
export interface GitSource<Locator> extends GitChecks {
  /** Where the lists are walked: repositories, or groups of them. */
  places: Connection['units'];
  list(wanted: WantedOf, signal: AbortSignal): Promise<Listed>;
  /** A page as it is stored, where it is not the list of its elements. */
  pageOf?(found: readonly unknown[], wanted: Pick<WantedOf, 'noun' | 'unit'>, signal: AbortSignal): Promise<unknown>;
  /** What a page of the list of ids tells. What cannot be read would look as if it were gone: throws `answer_malformed`. */
  swept(
    found: readonly unknown[],
    wanted: Pick<WantedOf, 'noun' | 'unit'>,
    signal: AbortSignal,
  ): Promise<Omit<SweepPage, 'next'>>;
  identify(name: string, signal: AbortSignal): Promise<Seen>;
  /** Looked for by what does not change. Where it is not there, and not known to be gone, its repository is asked for. */
  item(noun: string, locator: Locator, known: Known, signal: AbortSignal): Promise<Looked>;
  /** Throws where the repository of this item, or its list, cannot be seen at this moment. */
  prove(noun: string, locator: Locator, signal: AbortSignal): Promise<void>;
  readonly hooks: Hooks;
  readonly redeliver?: NonNullable<Connection['redeliver']>;
  comment(
    noun: string,
    locator: Locator,
    comment: { readonly marker: string; readonly text: string },
    signal: AbortSignal,
  ): Promise<undefined>;
  /** Closes an issue; see `Connection`. */
  closeIssue?(locator: Locator, key: string, signal: AbortSignal): Promise<void>;
}

type Outside =
  | 'id'
  | 'title'
  | 'publicHost'
  | 'capabilities'
  | 'grammar'
  | 'largestDelivery'
  | 'options'
  | 'host'
  | 'verify'
  | 'eventOf'
  | 'unrestricted'
  | 'shortestPoll'
  | 'exclusive'
  | 'unitOf';

/** What a locator says besides: a webhook did not tell whether the item is followed. */
export interface Unjudged {
  readonly isFollowed?: 'unknown' | undefined;
}

/** What a git provider says of itself; all that they do alike is the engine's. */
export interface GitVendor<Options extends { readonly commits: boolean }, Locator extends Unjudged>
  extends Pick<Connector<Options>, Outside> {
  /** What the vendor calls a repository. */
  readonly container: 'repository' | 'project';
  scopeOf(options: Options): Scope;
  /** Pull requests first. */
  readonly kinds: readonly Kind<Options, Locator>[];
  /** Whether issues are walked too. */
  withIssues?(options: Options): boolean;
  /** What becomes of a webhook; undefined where it is not followed, and its body is not read then. */
  told(event: string, options: Options): ((payload: unknown, options: Options) => Translation) | undefined;
  /** The payload of a webhook, where it may come as something else than JSON. */
  payloadOf?(body: Uint8Array): unknown;
  /** Whether what was fetched is followed, where a webhook did not tell that. Throws `delivery_malformed`. */
  isFollowed?(fetched: unknown, options: Options): boolean;
  readonly writes: GitWrites;
  connect(options: Options, deps: ConnectionDeps): GitSource<Locator>;
}
