import type { ZodType } from 'zod';
import type { Delivery } from '../model/delivery.ts';
import type { SyncError } from '../model/errors.ts';
import type { Grammar, Item, ItemKey, ItemReference, PullRequest, PullRequestState, WorkItem } from '../model/item.ts';
import type { Binding, NamedUnit } from '../model/names.ts';
import type { CommitStatus, DesiredComment, PostedComment } from '../model/notice.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/telemetry.ts';

/**
 * One vendor: pure functions for its webhooks and options, and `connect` for its API. `Options` are the connector's own part of a
 * connection's configuration.
 */
export interface Connector<Options = never> {
  readonly id: string;
  /** The vendor's name for people. */
  readonly title: string;
  /** The vendor's public host; repository ids of any other host are sent as `<host>:<id>`. */
  readonly publicHost: string;
  readonly capabilities: Capabilities;
  /** How texts name the vendor's items. Absent: by web address and, if the identifier is one, by key. */
  readonly grammar?: Grammar;
  /** Largest webhook body that the vendor sends, bytes. */
  readonly largestDelivery: number;
  /** The only status that the vendor accepts as success, if it refuses 202. */
  readonly accepted?: 200;
  readonly options: ZodType<Options>;
  host(options: Options): string;
  /**
   * Returns the shortest pause between two polls that the vendor's limits allow with these options, milliseconds. Absent: every
   * minute is allowed.
   */
  shortestPoll?(options: Options): number;
  /** Returns why no webhook can be verified with this secret. Absent: each text is a usable secret. */
  secretProblem?(secret: string): string | undefined;
  /** Whether `fetch` also reads the messages of a pull request's commits. Deliveries never contain all of them. */
  fetchesCommits?(options: Options): boolean;
  /** Returns whether `fetch` can also read the reviews of a pull request. Lists never contain all of them. */
  fetchesReviews?(options: Options): boolean;
  /**
   * Checks the signature over the raw bytes against every live secret, in constant time. Throws `SyncError`.
   *
   * @param now wall clock, epoch milliseconds, for signatures that are valid for some minutes only
   */
  verify(request: WebhookRequest, secrets: readonly string[], now: number): Promise<VerifiedRequest>;
  /** Pure: the same delivery always becomes the same items. Throws `delivery_malformed`. */
  translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation;
  /**
   * Pure: names a resource that only one connection should use, such as `GitHub App 4711`. A second connection would replace its
   * webhook and share its limit.
   */
  exclusive?(options: Options): string | undefined;
  /** Pure: returns options without credentials whose scope contains everything on this host, to inspect payloads. */
  unrestricted?(host?: string): Options;
  /** Pure: returns the headers of the signature and of the delivery's id for a sample. */
  sign?(body: Buffer, secret: string, context: Pick<SampleContext, 'at' | 'id'>): Readonly<Record<string, string>>;
  /** Loads the sample events by name, which only `worksync trigger` needs. */
  samples?(): Promise<Readonly<Record<string, SampleEvent<Options>>>>;
  eventOf?(payload: unknown): string | undefined;
  /** Pure: whether these options include work items. Absent: whenever `capabilities.workItems` is true. */
  withIssues?(options: Options): boolean;
  /** Pure: returns the names of single repositories, projects or teams in these options, as configured. */
  namesIn?(options: Options): readonly string[];
  /** Pure: whether a repository of this name may be in scope. True for options with ids, because one may be the id of this repository. */
  mayCover?(repository: string, options: Options): boolean;
  /** Pure: returns the unit by which polls request an object by its id. Absent: the id itself. */
  unitOf?(named: NamedUnit): string;
  /** Pure: returns the reference by which `fetch` gets this item if its deliveries cannot be ordered. Equal for equal items. */
  reference(item: Item): ItemReference;
  /** Pure: returns the grant by which these options get their access tokens, if they have one. */
  oauth?(options: Options): OAuthGrant | undefined;
  connect(options: Options, deps: ConnectionDeps): Connection;
  /** Returns the writes of members, if the vendor is a git provider. */
  git?(deps: ConnectionDeps): GitProvider;
}

/** The abilities of a vendor. The core reads the flag, never the connector's name. */
export type Capabilities = Readonly<Partial<typeof CAPABILITY_DEFAULTS>>;

export const CAPABILITY_DEFAULTS = {
  /** Deliveries have an id that is the same on every repetition. Otherwise intake uses the SHA-256 of the bytes. */
  namesDeliveries: false,
  /** The vendor can list changes since a time; otherwise polls walk its list, newest first. */
  pollsSince: false,
  /** The vendor reports deletions; otherwise a sweep finds them. */
  reportsDeletions: false,
  pullRequests: false,
  workItems: false,
  supportsLabels: false,
  supportsAssignees: false,
  supportsReviewers: false,
  supportsDraft: false,
  /** A closed request can be opened again; otherwise closed (declined) is final. */
  reopensClosed: false,
  closesWithFields: false,
};

/** A webhook request as intake received it: header names in lower case, the raw bytes untouched. */
export interface WebhookRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** The facts in the headers of a verified request; its body was not read. */
export interface VerifiedRequest {
  readonly deliveryId?: string;
  readonly event: string;
}

/** The meaning of a delivery. Intake fetches the objects of references, and each of them is a delivery again. */
export type Translation =
  | {
      readonly outcome: 'items';
      readonly items: readonly Item[];
      readonly references?: readonly ItemReference[];
      /** Fields that have another type than this connector documents, for a sender that people write themselves. */
      readonly unread?: readonly string[];
    }
  | {
      readonly outcome: 'references';
      readonly references: readonly ItemReference[];
      /**
       * Partial items of some of the references. If worksync has such an item already, reconcile applies the part, and intake
       * does not fetch the item.
       */
      readonly partialItems?: readonly Item[];
      /** The comment that the delivery reports, on the item of the only reference. Absent if a comment was removed. */
      readonly comment?: PostedComment;
    }
  | {
      readonly outcome: 'ignored';
      readonly reason: string;
      /** The identity of an item outside the scope. If this connection followed it before, the item has left the scope. */
      readonly outside?: WorkItem;
    };

/** The dependencies of a connection. A connector uses nothing else. */
export interface ConnectionDeps {
  readonly http: HttpClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly accessTokens?: AccessTokens;
}

/** One configured use of a connector, with its credentials. Every method throws `SyncError`. */
export interface Connection {
  /** Resolves with the units that polls walk, one after the other. */
  units(signal: AbortSignal): Promise<readonly string[]>;
  poll(position: PollPosition, signal: AbortSignal): Promise<PollPage>;
  /**
   * Resolves with the object that a configured name leads to now: the old name of a renamed object may still lead to it. Throws
   * `not_found` if it leads to nothing.
   */
  identify?(name: string, signal: AbortSignal): Promise<NamedUnit>;
  /** Gets the object. An object that is gone comes back as a body that translates to a gone item. */
  fetch(reference: ItemReference, signal: AbortSignal, known?: Known): Promise<Fetched>;
  /** Checks credentials, rights and scope, for `worksync check`. */
  check(signal: AbortSignal): Promise<readonly Finding[]>;
  history?(position: HistoryPosition, signal: AbortSignal): Promise<HistoryPage>;
  /** Reads one page of everything that exists in a unit, whatever its state. Throws if it cannot be read completely. */
  sweep?(unit: string, page: string | undefined, signal: AbortSignal): Promise<SweepPage>;
  /**
   * Requests the vendor to send again the deliveries to this address that failed since the last round. Never rejects, so that
   * the work before a failure is kept.
   *
   * @param cursor of the last round; undefined on the first one
   */
  redeliver?(url: string, cursor: string | undefined, signal: AbortSignal): Promise<Redelivery>;
  readonly hooks?: Hooks;
  /**
   * Posts the text, or updates the comment of this credential that has the marker; a correction only updates. The marker is an
   * HTML comment. The connector writes it unchanged, or in the vendor's own way if people would see it or the vendor would drop it.
   *
   * @returns the comment as it is now, if the vendor's webhooks report comments: so that our own comment costs no fetch
   */
  comment?(reference: ItemReference, comment: DesiredComment, signal: AbortSignal): Promise<PostedComment | undefined>;
  readonly status?: {
    /** The right that the credential needs for them, in the vendor's words: `the right …`. */
    readonly right: string;
    /**
     * Sets the status of that commit, under the one name of `model/notice.ts`. Setting an equal status again changes nothing that
     * people see. Throws `refused` if the credential lacks the right.
     */
    write(reference: ItemReference, status: LinkedStatus, signal: AbortSignal): Promise<void>;
  };
  /**
   * Closes the item as done; an item that is done already stays unchanged.
   *
   * @param fields values that the vendor requires when an item is closed, if `capabilities.closesWithFields`
   */
  close?(reference: ItemReference, signal: AbortSignal, fields?: CloseFields): Promise<void>;
}

/** The position of a poll of one unit. Times are RFC 3339, UTC, by the provider's clock. */
export interface PollPosition {
  /** One part of the scope that is listed on its own, for example a repository. */
  readonly unit: string;
  /** Changes up to this time are read; absent on the first walk. */
  readonly watermark?: string;
  /** Continues a walk; absent on its first page. Opaque to the core. */
  readonly page?: string;
  /** When this walk began, by our clock. */
  readonly startedAt: string;
  /** The validator of the last complete first page. */
  readonly etag?: string;
}

export type PollPage =
  /** 304: nothing changed since the last walk. */
  | { readonly outcome: 'unchanged' }
  /** The watermark moves with the last page. */
  | (Omit<HistoryPage, 'total'> & {
      readonly outcome: 'page';
      /** The highest time on this page. The walk keeps the highest of all its pages as its candidate watermark. */
      readonly newest?: string;
      /** Stored with this page, and used by the first page of the next walk. */
      readonly etag?: string;
    });

/** The position of a backfill of one unit: everything that was changed since a time, newest first. */
export interface HistoryPosition {
  readonly unit: string;
  /** RFC 3339; absent: without a limit. */
  readonly since?: string;
  /** Continues; absent on the first page. Opaque to the core. */
  readonly page?: string;
}

export interface HistoryPage extends Fetched {
  /** The next page; absent on the last one. */
  readonly next?: string;
  /** The number of items in the whole list, if the vendor reports it; for a progress bar. */
  readonly total?: number;
  /** The vendor's page has no element. Absent if an empty page says nothing about the pages behind it. */
  readonly isEmpty?: boolean;
}

/**
 * The ids of everything that exists. worksync fetches the items that it knows and that are missing here, to find out whether they
 * are gone.
 */
export interface SweepPage {
  readonly keys: readonly ItemKey[];
  /** Repositories or projects (`repoId`, `containerId`) of which the sweep of this unit lists every item. */
  readonly containers: readonly string[];
  readonly next?: string;
  readonly isEmpty?: boolean;
}

/** The parts of a pull request that `fetch` reads by further requests. */
export interface Known {
  /** The head whose commits are known, so that `fetch` does not read them again. */
  readonly commitsSha?: string;
  /** Its reviews are read too, because no webhook reports them. */
  readonly wantsReviews?: boolean;
}

export interface Fetched {
  /** The connector's own name of the shape; `translate` gets it as the event. */
  readonly event: string;
  readonly body: Buffer;
}

/** One line of `worksync check`. */
export interface Finding {
  readonly level: 'ok' | 'warning' | 'error';
  readonly subject: string;
  readonly message: string;
  readonly hint?: string;
  /** The quota did not allow the check: the same check may find something later. */
  readonly isPostponed?: true;
}

/** One round of requests to send failed deliveries again. */
export interface Redelivery {
  readonly requested: number;
  /** For the next round; opaque to the core, at most some 100 kB for each hook. */
  readonly cursor: string;
  /** Why the round did not check every delivery, for people. */
  readonly cut?: string;
  readonly failure?: SyncError;
}

/** Webhooks at the vendor, if its API can read and register them. */
export interface Hooks {
  /** @param url the public address for deliveries */
  states(url: string, signal: AbortSignal): Promise<readonly HookState[]>;
  /** Registers, repairs and switches on webhooks; idempotent. Returns one line per hook. */
  install(url: string, secret: string, signal: AbortSignal): Promise<readonly InstalledHook[]>;
}

export interface HookState {
  /** The owner of the hook, for people: a repository, a group, a project. */
  readonly subject: string;
  /** `disabled`: the vendor or a person switched it off. `unknown`: this credential may not read it. */
  readonly state: 'active' | 'disabled' | 'absent' | 'unknown';
  readonly message: string;
  readonly hint?: string;
}

export interface InstalledHook extends HookState {
  /** `unknown` where the vendor refused it for this place. */
  readonly outcome: 'created' | 'updated' | 'unchanged' | 'unknown';
}

export type CloseFields = Readonly<Record<string, unknown>>;

export type LinkedStatus = CommitStatus & { readonly url?: string | undefined };

/** A grant of OAuth 2.0. Its access tokens expire soon, and the daemon renews them. */
export interface OAuthGrant {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The token of a person's consent. The daemon stores the tokens that replace it. */
  readonly refreshToken: string;
  /** The form in which the token endpoint takes its parameters. */
  readonly encoding: 'json' | 'form';
}

export interface AccessTokens {
  /** Returns a token that stays valid for some minutes. Throws `consent_needed`, `secret_key_wrong`, and the errors of requests. */
  get(signal: AbortSignal): Promise<string>;
  refused(token: string): void;
}

/** A member's own access to a git provider: they may do what the token may do. */
export interface MemberAccess {
  readonly token: string;
  readonly host: string;
  /** Absent: the address that follows from the host. */
  readonly apiUrl?: string;
}

/** A repository as the workspace API names it: the stable id, as `<host>:<id>` where the host is not the public one. */
interface InRepository {
  readonly repoId: string;
}

/** The parts of a pull request that a member may set; absent parts stay unchanged. */
interface PullRequestParts {
  readonly description?: string | null;
  readonly draft?: boolean;
  readonly reviewers?: readonly string[];
  readonly labels?: readonly string[];
  readonly assignees?: readonly string[];
}

export interface NewPullRequest extends InRepository, PullRequestParts {
  readonly title: string;
  readonly headBranch: string;
  readonly baseBranch: string;
}

export interface PullRequestEdit extends InRepository, PullRequestParts {
  readonly identifier: string;
  readonly title?: string;
  readonly baseBranch?: string;
  readonly state?: PullRequestState;
}

export interface WrittenPullRequest extends InRepository {
  readonly pullRequest: PullRequest;
  /** Why a part of the request was not carried out although others were. */
  readonly refused?: SyncError;
}

/**
 * The writes of members at a git provider. No write is repeated: after an unknown outcome the connector checks whether it was
 * carried out. Every method throws `SyncError`, whose `errorCode` is that of the workspace API if it has one:
 * `branch_not_found`, `pull_request_exists`, `no_commits_between`, `unsupported_field`, `validation_failed`.
 */
export interface GitProvider {
  hasBranch(
    access: MemberAccess,
    branch: InRepository & { readonly branch: string },
    signal: AbortSignal,
  ): Promise<boolean>;
  openPullRequest(access: MemberAccess, pull: NewPullRequest, signal: AbortSignal): Promise<WrittenPullRequest>;
  editPullRequest(access: MemberAccess, edit: PullRequestEdit, signal: AbortSignal): Promise<WrittenPullRequest>;
}

/** The time, the id and the name bindings with which a sample is made. */
export interface SampleContext {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly id: string;
  /** The objects that the names in the connection's configuration lead to. */
  readonly bindings: readonly Binding[];
  /** The key of the task that the title names. */
  readonly task?: string | undefined;
}

/** An invented event of a vendor, about an item that does not exist. */
export interface SampleEvent<Options> {
  readonly about: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Returns a payload about an item in the scope of the connection. Throws `refused` if nothing in the scope has a known id. */
  payload(options: Options, context: SampleContext): object;
}
