import type { ZodType } from 'zod';
import type { Item, PullRequest, WorkItem } from '../../model/item.ts';
import type { NamedUnit } from '../../model/names.ts';
import type { DesiredComment } from '../../model/notice.ts';
import type {
  Connection,
  ConnectionDeps,
  Connector,
  Hooks,
  Known,
  LinkedStatus,
  SweepPage,
  Translation,
} from '../connector.ts';
import type { GitChecks } from './git-check.ts';
import type { GitWrites } from './git-writes.ts';
import type { Scope } from './scope.ts';
import type { Looked, OfEngine } from './tracker-vendor.ts';
import type { Listed, Walk, Wanted } from './walk.ts';

/** What identifies an item. */
export interface Parts {
  /** Its repository: the id, and the name at that time. */
  readonly container: string;
  readonly name: string;
  readonly number: string;
  /** Its own id, where it has one beside its number. */
  readonly id: string;
}

/**
 * One kind of thing that a git provider lists in each of its repositories: its pull requests, or its issues.
 * Names and shapes of what is stored never change, since rows wait in databases.
 */
export interface Kind<Options, Locator> extends Pick<Walk, 'order' | 'changedAt' | 'isConditional'> {
  readonly kind: Item['kind'];
  /** The first part of the names of rows that polls and fetches bring: `pulls` in `pulls.list`. */
  readonly noun: string;
  /** Checks what a row contains like input from outside, since addresses are made of it. */
  readonly locator: ZodType<Locator>;
  locatorOf(parts: Parts): Readonly<Record<string, string>>;
  /** The items of a stored page. Throws `delivery_malformed`, like those below. */
  itemsOn(page: unknown, options: Options): readonly Item[];
  /** Fields that every item has: where a list or a webhook lacks one, its shape has drifted, and intake fetches the item. */
  readonly whole: readonly (keyof PullRequest | keyof WorkItem)[];
  itemOf(fetched: unknown, options: Options): Item;
  /** Writes the row of an item that no longer exists; `goneOf` reads it. */
  rowOfGone(locator: Locator, seenAt: string): object;
  goneOf(row: unknown, options: Options): Item;
}

export type Identity = Omit<PullRequest, 'updatedAt'> | Omit<WorkItem, 'updatedAt'>;

/** A request for a page of one of the lists of a repository. */
export interface WantedOf extends Wanted {
  readonly noun: string;
}

/** The vendor's API. It reduces what it lists and finds to the fields that are read. Every method throws `SyncError`. */
export interface GitSource<Locator> extends GitChecks {
  /** The places whose lists polls walk: repositories, or groups of them. */
  places: Connection['units'];
  list(wanted: WantedOf, signal: AbortSignal): Promise<Listed>;
  /** Throws for a place that stands for a list which the vendor refused. */
  requireReadable?(place: string): void;
  /** A page as worksync stores it, where that is not just the list of its elements. */
  pageOf?(found: readonly unknown[], wanted: Pick<WantedOf, 'noun' | 'unit'>, signal: AbortSignal): Promise<unknown>;
  /** Reads a page of ids. Throws `answer_malformed` where it cannot: an item that is left out would look gone. */
  swept(
    found: readonly unknown[],
    wanted: Pick<WantedOf, 'noun' | 'unit'>,
    signal: AbortSignal,
  ): Promise<Omit<SweepPage, 'next'>>;
  identify(name: string, signal: AbortSignal): Promise<NamedUnit>;
  /** Looks for the item by what does not change. Where it is not there and may only be hidden, `prove` is called next. */
  item(noun: string, locator: Locator, known: Known, signal: AbortSignal): Promise<Looked>;
  /** Throws where this credential cannot see the repository of this item, or its list, at this moment. */
  prove(noun: string, locator: Locator, signal: AbortSignal): Promise<void>;
  /**
   * What is switched off in a place at this moment, as `issues of acme/web`, where a list of it was refused or not found; undefined
   * where it is on. Absent: the vendor has no such switch.
   */
  switchedOff?(noun: string, place: string, signal: AbortSignal): Promise<string | undefined>;
  readonly hooks: Hooks;
  readonly redeliver?: NonNullable<Connection['redeliver']>;
  comment(noun: string, locator: Locator, comment: DesiredComment, signal: AbortSignal): Promise<undefined>;
  /** Sets the status of a commit of a pull request, in its repository; `right` as in `Connection`. */
  readonly status: {
    readonly right: string;
    write(locator: Locator, status: LinkedStatus, signal: AbortSignal): Promise<unknown>;
  };
  /** Closes an issue; see `Connection`. */
  closeIssue?(locator: Locator, key: string, signal: AbortSignal): Promise<void>;
}

/** `unknown`: the webhook did not tell whether the item is in scope, so `translate` judges what is fetched. */
export interface Unjudged {
  readonly isFollowed?: 'unknown' | undefined;
}

/** What a git provider says of itself; the engine does what all of them have in common. */
export interface GitVendor<Options extends { readonly commits: boolean }, Locator extends Unjudged>
  extends Omit<Connector<Options>, OfEngine> {
  /** What the vendor calls a repository. */
  readonly container: 'repository' | 'project';
  scopeOf(options: Options): Scope;
  /** Pull requests first. */
  readonly kinds: readonly Kind<Options, Locator>[];
  /** Whether polls walk the issues too. */
  withIssues?(options: Options): boolean;
  /** Translates webhooks of this event; undefined where the event is not followed: nobody reads its body then. */
  told(event: string, options: Options): ((payload: unknown, options: Options) => Translation) | undefined;
  /** Reads the payload of a webhook, where it may have another form than JSON. */
  payloadOf?(body: Uint8Array): unknown;
  /** Whether a fetched item is in scope, where its webhook did not tell that. Throws `delivery_malformed`. */
  isFollowed?(fetched: unknown, options: Options): boolean;
  readonly writes: GitWrites;
  connect(options: Options, deps: ConnectionDeps): GitSource<Locator>;
}
