import type { ZodType } from 'zod';
import type { WorkItem } from '../../model/item.ts';
import type { DesiredComment, PostedComment } from '../../model/notice.ts';
import type { CloseFields, Connection, ConnectionDeps, Connector, Finding, Hooks, Translation } from '../connector.ts';
import type { Candidate, Scope } from './scope.ts';
import type { Order, Walk } from './walk.ts';

/** One thing that an item is known by, and how rows name it. Rows wait in databases, so these names never change. */
export interface Part {
  /** Checks what a row contains like input from outside, since addresses are made of it. */
  readonly shape: ZodType<string, string>;
  /** In the locator of a reference. */
  readonly locator: string;
  /** In the object that `fetch` writes for an item that no longer exists. */
  readonly gone: string;
}

/** The names by which an item is fetched, and the remaining facts of one that is gone. */
export interface Locator {
  readonly id: string;
  /** Absent where a webhook did not tell it. */
  readonly container?: string | undefined;
  readonly identifier?: string | undefined;
  /** `unknown`: the webhook did not tell whether the item is in scope, so `translate` judges what is fetched. */
  readonly isFollowed?: 'unknown' | undefined;
}

/** What a webhook tells of one item. */
export interface WebhookFacts {
  readonly id: string;
  readonly identifier?: string | undefined;
  /** Its container. Without the container's name `translate` cannot judge whether that is in scope. */
  readonly container?: { readonly id: string; readonly name?: string | undefined } | undefined;
  /** Whether `translate` must judge what is fetched, although the webhook tells the container. */
  readonly isFollowed?: 'unknown';
  /** The item as it was at that time; without one it is fetched. */
  readonly item?: WorkItem;
  /** When it ceased to exist, epoch milliseconds. */
  readonly goneAt?: number;
  /** The comment that the webhook reports; one of ours is no news. */
  readonly comment?: PostedComment | undefined;
}

/** What a search by id brought. Where the item is not there and may only be hidden, the engine asks for its container. */
export interface Looked {
  readonly found?: unknown;
  readonly isGone?: boolean;
}

/** What `check` says of the vendor's address and the credential. */
export interface About {
  /** Where one of these is an error, `check` goes no further. */
  readonly first: readonly Finding[];
  readonly besides?: readonly Finding[];
}

/** The vendor's API. It reduces what it lists and finds to the fields that are read. Every method throws `SyncError`. */
export interface Source<Container> extends Pick<Walk, 'list'> {
  /** Everything that the credential sees, for patterns. */
  containers(signal: AbortSignal): Promise<readonly Container[]>;
  /** The container of a unit, which may be some minutes old. Throws where this credential cannot see it. */
  container(unit: string, signal: AbortSignal): Promise<Container>;
  /** The same as it is at this moment, where `container` remembers. */
  present?(unit: string, signal: AbortSignal): Promise<Container>;
  /** What is switched off in a container, as `issues of Web`; undefined where nothing is. Absent: the vendor has no such switch. */
  offIn?(container: Container): string | undefined;
  /** `not_found` means that the item is not there, and may only be hidden. */
  item(locator: Locator, signal: AbortSignal): Promise<Looked>;
  /** A page as worksync stores it, where that is not just the list of its elements. */
  pageOf?(found: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  about(signal: AbortSignal): Promise<About>;
  /** What `check` says of a unit whose container can be seen. */
  describe(unit: string, container: Container, signal: AbortSignal): Promise<Finding>;
  /** Both get what is known of the item; see `Connection`. */
  comment(locator: Locator, comment: DesiredComment, signal: AbortSignal): Promise<PostedComment | undefined>;
  /**
   * @param key for people, in errors
   * @param fields see `Connection`
   */
  close(locator: Locator, key: string, signal: AbortSignal, fields?: CloseFields): Promise<void>;
  /** @param followed the containers of all units */
  hooks?(followed: (signal: AbortSignal) => Promise<readonly Container[]>): Hooks;
  /** Further walks of this vendor. */
  extend?(connection: Connection): Partial<Connection>;
}

/** What the engines write of a connector; a vendor says the rest. */
export type OfEngine = 'translate' | 'reference' | 'namesIn' | 'fetchesCommits' | 'git' | 'connect';

/** What a tracker says of itself; the engine does what all trackers have in common. */
export interface Tracker<Options, Found, Container> extends Omit<Connector<Options>, OfEngine> {
  /** The first part of the names of rows that polls and fetches bring: `issues` in `issues.list`. */
  readonly noun: string;
  /** What the vendor calls its containers, the option that names them, and what to do where none can be seen. */
  readonly container: { readonly word: string; readonly option: string; readonly hint: string };
  scopeOf(options: Options): Scope;
  candidate(container: Container): Candidate;
  /** The name of a unit that a pattern took in. */
  readonly unitBy: 'id' | 'name';
  readonly itemId: Part;
  readonly containerId: Part;
  /** How people name an item; a function where that follows from its id. */
  readonly identifier: Part | ((id: string) => string);
  /** Whether any webhook of this event is followed; otherwise nobody reads its body. */
  follows(event: string): boolean;
  /** What a webhook tells; undefined where it is not followed after all. Throws `delivery_malformed`. */
  parseWebhook(payload: unknown, options: Options, event: string): WebhookFacts | Translation | undefined;
  /** Fields that every item has: where a webhook lacks one, intake fetches the item. */
  readonly whole?: readonly (keyof WorkItem)[];
  readonly found: ZodType<Found>;
  /** Reads a stored page, where that contains more than its elements. Throws `delivery_malformed`. */
  itemsOnPage?(payload: unknown): readonly Found[];
  itemOf(found: Found, options: Options): WorkItem;
  containerOf(found: Found): Candidate;
  /** Whether a fetched item comes with its container, so that its scope can be checked; absent: it never does. */
  needsScopeCheck?(found: Found): boolean;
  /** Reads the container that is stored beside an item that is gone, where `translate` must judge it. */
  readonly containerShape?: ZodType<Container>;
  readonly order: Order;
  changedAt(element: unknown): number;
  isDone?(element: unknown): boolean;
  /** The ids on a page of a sweep, without items that worksync does not show; absent: each element's `id`. Throws `answer_malformed`. */
  idsOf?(found: readonly unknown[], what: string, options: Options): readonly string[];
  connect(options: Options, deps: ConnectionDeps): Source<Container>;
}
