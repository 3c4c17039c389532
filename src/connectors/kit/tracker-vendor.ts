import type { ZodType } from 'zod';
import type { StandingComment } from '../../model/comment.ts';
import type { WorkItem } from '../../model/item.ts';
import type { Connection, ConnectionDeps, Connector, Finding, Hooks, Translation } from '../connector.ts';
import type { About } from './followed.ts';
import type { Candidate, Scope } from './scope.ts';
import type { Order, Walk } from './walk.ts';

/** One thing that an item is known by, and how rows name it. Rows wait in databases, so these names never change. */
export interface Part {
  /** What comes back from a row is checked like what comes from outside: no address is made of anything else. */
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
  /** Whether `translate` is to judge what is fetched: the webhook did not tell whether it is followed. */
  readonly isFollowed?: 'unknown' | undefined;
}

/** What a webhook tells of one item. */
export interface Told {
  readonly id: string;
  readonly identifier?: string | undefined;
  /** Where it lies. Without its name it cannot be judged whether that is followed. */
  readonly container?: { readonly id: string; readonly name?: string | undefined } | undefined;
  /** Whether what is fetched must be judged, though the container is told. */
  readonly isFollowed?: 'unknown';
  /** The item as it was at that time; without one it is fetched. */
  readonly item?: WorkItem;
  /** When it ceased to exist, epoch milliseconds. */
  readonly goneAt?: number;
  /** The comment that it tells of, which may be ours and no news. */
  readonly comment?: StandingComment | undefined;
}

/** Looked for by its id. Where it is not there, and it is not known to be gone, its container is asked for. */
export type Looked = { readonly found: unknown } | { readonly found?: undefined; readonly isGone: boolean };

/** The vendor's API. It reduces what it lists and finds to the fields that are read. Every method throws `SyncError`. */
export interface Source<Container> extends Pick<Walk, 'list'> {
  /** Everything that the credential sees, for patterns. */
  containers(signal: AbortSignal): Promise<readonly Container[]>;
  /** The container that a unit means; it may be known from some minutes ago. Throws where it cannot be seen. */
  container(unit: string, signal: AbortSignal): Promise<Container>;
  /** The same as it is at this moment, where `container` remembers. */
  present?(unit: string, signal: AbortSignal): Promise<Container>;
  item(locator: Locator, signal: AbortSignal): Promise<Looked>;
  /** A page as it is stored, where more than its elements is. */
  pageOf?(found: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  about(signal: AbortSignal): Promise<About>;
  /** What `check` says of a unit whose container can be seen. */
  describe(unit: string, container: Container, signal: AbortSignal): Promise<Finding>;
  /** Both get what is known of the item; see `Connection`. */
  comment(
    locator: Locator,
    comment: { readonly marker: string; readonly text: string },
    signal: AbortSignal,
  ): Promise<StandingComment | undefined>;
  /** @param key for people, in errors */
  close(locator: Locator, key: string, signal: AbortSignal): Promise<void>;
  /** @param followed the containers of all units */
  hooks?(followed: (signal: AbortSignal) => Promise<readonly Container[]>): Hooks;
  /** Further walks of this vendor. */
  extend?(connection: Connection): Partial<Connection>;
}

type Outside =
  | 'id'
  | 'title'
  | 'publicHost'
  | 'capabilities'
  | 'grammar'
  | 'largestDelivery'
  | 'accepted'
  | 'options'
  | 'host'
  | 'verify'
  | 'eventOf'
  | 'unrestricted'
  | 'oauth';

/** What a tracker says of itself; the engine does what all trackers have in common. */
export interface Tracker<Options, Found, Container> extends Pick<Connector<Options>, Outside> {
  /** Before the names of what polls and fetches bring: `issues` in `issues.list`. */
  readonly noun: string;
  /** What the vendor calls its containers, the option that names them, and what to do where none can be seen. */
  readonly container: { readonly word: string; readonly option: string; readonly hint: string };
  scopeOf(options: Options): Scope;
  candidate(container: Container): Candidate;
  /** What a unit that a pattern took in is walked by. */
  readonly unitBy: 'id' | 'name';
  readonly itemId: Part;
  readonly containerId: Part;
  /** How people name an item; a function where that follows from its id. */
  readonly identifier: Part | ((id: string) => string);
  /** Whether any webhook of this event is followed; otherwise its body is not read. */
  follows(event: string): boolean;
  /** Undefined where it is not followed after all. Throws `delivery_malformed`. */
  told(payload: unknown, options: Options, event: string): Told | Translation | undefined;
  /** Fields without which what a webhook tells is fetched; see `isWhole`. */
  readonly whole?: readonly (keyof WorkItem)[];
  readonly found: ZodType<Found>;
  /** A stored page, where it holds more than its elements. Throws `delivery_malformed`. */
  foundOn?(payload: unknown): readonly Found[];
  itemOf(found: Found, options: Options): WorkItem;
  placeOf(found: Found): Candidate;
  /** Whether to check that a fetched item is in scope, where rows of older versions ask for it. */
  isJudged?(found: Found): boolean;
  /** Of a container, as it stands beside an item that is gone and was to be judged. */
  readonly containerShape?: ZodType<Container>;
  readonly order: Order;
  changedAt(element: unknown): number;
  isDone?(element: unknown): boolean;
  /** The ids on a page of a sweep, without what is not shown. Throws `answer_malformed`. */
  idsOf(found: readonly unknown[], what: string, options: Options): readonly string[];
  connect(options: Options, deps: ConnectionDeps): Source<Container>;
}
