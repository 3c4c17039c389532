import type { ZodType } from 'zod';
import type { Delivery } from '../model/delivery.ts';
import type { SyncError } from '../model/errors/sync-error.ts';
import type { Item, ItemKey, ItemReference, PullRequest, PullRequestState } from '../model/item.ts';
import type { Grammar } from '../model/link.ts';
import type { Binding, NamedUnit } from '../model/names.ts';
import type { CommitStatus, DesiredComment, PostedComment } from '../model/notice.ts';
import type { HttpClient } from '../platform/http/http-client.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';

/**
 * What a vendor can do. Every flag is false unless the connector says otherwise. The core asks the flag, never the
 * connector's name.
 */
export interface Capabilities {
  /** Deliveries carry an id that is the same on every repetition. Otherwise intake takes the SHA-256 of the bytes. */
  readonly namesDeliveries?: boolean;
  /** The vendor can list what changed since a time; otherwise polls walk its list, newest first. */
  readonly pollsSince?: boolean;
  /** The vendor reports deletions; otherwise a sweep finds them. */
  readonly reportsDeletions?: boolean;
  /** Yields pull requests. */
  readonly pullRequests?: boolean;
  /** Yields work items. */
  readonly workItems?: boolean;
  readonly supportsLabels?: boolean;
  readonly supportsAssignees?: boolean;
  readonly supportsReviewers?: boolean;
  readonly supportsDraft?: boolean;
  /** A closed request can be opened again. Where it cannot, closed (declined) is final. */
  readonly reopensClosed?: boolean;
  /** Closing an item can fill in fields. */
  readonly closesWithFields?: boolean;
}

/** The default of every flag. */
export const CAPABILITY_DEFAULTS: Required<Capabilities> = {
  namesDeliveries: false,
  pollsSince: false,
  reportsDeletions: false,
  pullRequests: false,
  workItems: false,
  supportsLabels: false,
  supportsAssignees: false,
  supportsReviewers: false,
  supportsDraft: false,
  reopensClosed: false,
  closesWithFields: false,
};

/** The result for one unit's webhook at the vendor. */
export interface HookState {
  /** What the hook belongs to, for people: a repository, a group, a project. */
  readonly subject: string;
  /** `disabled`: the vendor switched it off, or somebody did. `unknown`: this credential may not read it. */
  readonly state: 'active' | 'disabled' | 'absent' | 'unknown';
  readonly message: string;
  readonly hint?: string;
}

/** The same after an installation. */
export interface InstalledHook extends HookState {
  readonly outcome: 'created' | 'updated' | 'unchanged';
}

/** Webhooks at the vendor, if its API can read and register them. */
export interface Hooks {
  /** @param url the public address that deliveries are to go to */
  states(url: string, signal: AbortSignal): Promise<readonly HookState[]>;
  /** Registers, repairs and switches on webhooks; idempotent. Returns one line per hook. */
  install(url: string, secret: string, signal: AbortSignal): Promise<readonly InstalledHook[]>;
}

/** A webhook request as intake received it: header names in lower case, the raw bytes untouched. */
export interface WebhookRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

/** What a verified request says about itself in its headers; the body was not read. */
export interface VerifiedRequest {
  /** The vendor's delivery id, where `namesDeliveries`. */
  readonly deliveryId?: string;
  readonly event: string;
}

/** What a delivery becomes. Intake fetches references; what it fetches is a delivery again. */
export type Translation =
  | {
      readonly outcome: 'items';
      readonly items: readonly Item[];
      readonly references?: readonly ItemReference[];
    }
  | {
      readonly outcome: 'references';
      readonly references: readonly ItemReference[];
      /**
       * Partial items of some of the references. Where worksync has such an item already, reconcile applies the part, and
       * intake does not fetch the item.
       */
      readonly told?: readonly Item[];
      /** The comment that the delivery reports, on the item of the only reference. Absent where a comment was removed. */
      readonly comment?: PostedComment;
    }
  | { readonly outcome: 'ignored'; readonly reason: string };

/** Where a poll of one unit stands. Times are RFC 3339, UTC, by the provider's clock. */
export interface PollPosition {
  /** One piece of the scope that is listed on its own, for example a repository. */
  readonly unit: string;
  /** Everything up to this time is known; absent on the first walk. */
  readonly watermark?: string;
  /** Continues a walk; absent on its first page. Opaque to the core. */
  readonly page?: string;
  /** When this walk began, by our clock. */
  readonly startedAt: string;
  /** The validator kept from the last complete first page. */
  readonly etag?: string;
}

export type PollPage =
  /** 304: nothing changed since the last walk. */
  | { readonly outcome: 'unchanged' }
  | {
      readonly outcome: 'page';
      /** The connector's own name of the shape; `translate` gets it as the event. */
      readonly event: string;
      readonly body: Buffer;
      /** The next page; absent on the last one, with which the watermark moves. */
      readonly next?: string;
      /** Highest time seen on this page; the walk keeps the highest of all its pages as its candidate watermark. */
      readonly newest?: string;
      /** Kept with the page that brought it, used by the next walk's first page. */
      readonly etag?: string;
      /** The vendor's page has no element. Absent where an empty page says nothing of the pages behind it. */
      readonly isEmpty?: boolean;
    };

/** Where a backfill of one unit stands: everything that was changed since a time, newest first. */
export interface HistoryPosition {
  readonly unit: string;
  /** RFC 3339; absent: everything that ever was. */
  readonly since?: string;
  /** Continues; absent on the first page. Opaque to the core. */
  readonly page?: string;
}

export interface HistoryPage {
  readonly event: string;
  readonly body: Buffer;
  readonly next?: string;
  /** How many items the whole list contains, where the vendor tells; for a progress bar. */
  readonly total?: number;
  /** As in `PollPage`. */
  readonly isEmpty?: boolean;
}

/**
 * The ids of what exists: worksync fetches items that it knows and that are not among them, which shows whether they are gone.
 */
export interface SweepPage {
  readonly keys: readonly ItemKey[];
  /** Repositories or projects (`repoId`, `containerId`) of which the sweep of this unit lists every item. */
  readonly containers: readonly string[];
  readonly next?: string;
  /** As in `PollPage`. */
  readonly isEmpty?: boolean;
}

/** One round of requests to send failed deliveries again. */
export interface Redelivery {
  /** The number of deliveries that the vendor was requested to send again. */
  readonly requested: number;
  /** For the next round; opaque to the core, at most some 100 kB for each hook. */
  readonly cursor: string;
  /** Why the round did not check every delivery, for people. */
  readonly cut?: string;
  /** What ended the round early. */
  readonly failure?: SyncError;
}

/** What worksync has stored of the item, so that `fetch` need not read it again. */
export interface Known {
  /** The head of the pull request whose commits were read. */
  readonly commitsSha?: string;
}

export interface Fetched {
  readonly event: string;
  readonly body: Buffer;
}

/** One line of `worksync check`. */
export interface Finding {
  readonly level: 'ok' | 'warning' | 'error';
  readonly subject: string;
  readonly message: string;
  /** The remedy, where there is something to mend. */
  readonly hint?: string;
}

/** A grant of OAuth 2.0, whose access tokens expire soon; the daemon renews them. */
export interface OAuthGrant {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The one of a person's consent; the daemon stores those that replaced it. */
  readonly refreshToken: string;
  /** How the token endpoint takes its parameters. */
  readonly encoding: 'json' | 'form';
}

/** The access tokens of a grant. */
export interface AccessTokens {
  /** One that stays valid for some minutes. Throws `consent_needed`, `secret_key_wrong`, and what requests throw. */
  get(signal: AbortSignal): Promise<string>;
  /** Reports that the vendor refused this token before it expired. */
  refused(token: string): void;
}

/** What a connection needs from outside; nothing else is reachable from a connector. */
export interface ConnectionDeps {
  readonly http: HttpClient;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Of the grant that `oauth` names. */
  readonly accessTokens?: AccessTokens;
}

/** One configured use of a connector, with its credentials. Every method throws `SyncError`. */
export interface Connection {
  /** The units that a poll walks, one after the other. */
  units(signal: AbortSignal): Promise<readonly string[]>;
  poll(position: PollPosition, signal: AbortSignal): Promise<PollPage>;
  /**
   * What a name of the configuration leads to now, as the vendor says it at this moment: the old name of a renamed thing may
   * still find it. Throws `not_found` where it leads to nothing.
   */
  identify?(name: string, signal: AbortSignal): Promise<NamedUnit>;
  /** Gets the object; an object that is gone comes back as a body that translates to a gone item. */
  fetch(reference: ItemReference, signal: AbortSignal, known?: Known): Promise<Fetched>;
  /** Proves credentials, rights and scope; used by `worksync check`. */
  check(signal: AbortSignal): Promise<readonly Finding[]>;
  /** One page of a backfill. */
  history?(position: HistoryPosition, signal: AbortSignal): Promise<HistoryPage>;
  /** One page of everything that exists in a unit, whatever its state. Throws where it cannot be read whole. */
  sweep?(unit: string, page: string | undefined, signal: AbortSignal): Promise<SweepPage>;
  /**
   * Asks the vendor to send again the deliveries to this address that failed since the last round. Never rejects, so that what
   * was done until a failure is kept.
   *
   * @param cursor of the last round; undefined on the first one
   */
  redeliver?(url: string, cursor: string | undefined, signal: AbortSignal): Promise<Redelivery>;
  readonly hooks?: Hooks;
  /**
   * Posts the text, or updates the comment of this credential that has the marker; a correction only updates. The marker is an
   * HTML comment: the connector writes it as it is, or, where people would see it or the vendor would drop it, in the vendor's
   * own way.
   *
   * @returns the comment as it is now, where the vendor's webhooks report comments: so that our own costs no fetch
   */
  comment?(reference: ItemReference, comment: DesiredComment, signal: AbortSignal): Promise<PostedComment | undefined>;
  /** Commit statuses of pull requests. */
  readonly status?: {
    /** What the credential needs for them, as the vendor calls it: `the right …`. */
    readonly right: string;
    /**
     * Sets the status of that commit, under the one name of `model/notice.ts`; the same once more changes nothing that
     * people see. Throws `refused` where the credential lacks the right.
     */
    write(reference: ItemReference, status: LinkedStatus, signal: AbortSignal): Promise<void>;
  };
  /**
   * Closes the item as done; one that is done already is left as it is.
   *
   * @param fields values that the vendor asks for when an item is closed, where `capabilities.closesWithFields`
   */
  close?(reference: ItemReference, signal: AbortSignal, fields?: CloseFields): Promise<void>;
}

/** Values of fields by the vendor's ids of them. */
export type CloseFields = Readonly<Record<string, unknown>>;

/** A commit status, and the address that it leads to. */
export type LinkedStatus = CommitStatus & { readonly url?: string | undefined };

/** A member's own access to a git provider: what they may do there is what the token may do. */
export interface MemberAccess {
  readonly token: string;
  readonly host: string;
  /** Absent: the one that follows from the host. */
  readonly apiUrl?: string;
}

/** A repository as the workspace API names it: the stable id, as `<host>:<id>` where the host is not the public one. */
interface InRepository {
  readonly repoId: string;
}

/** Parts of a pull request that a member may set; what is absent is left as it is. */
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

/** The provider's state after a write. */
export interface WrittenPullRequest extends InRepository {
  readonly pullRequest: PullRequest;
  /** Why a part of the request was not carried out, though others were. */
  readonly refused?: SyncError;
}

/**
 * Writes of members at a git provider. Nothing is repeated: after a write with unknown outcome the connector checks whether it
 * was carried out. Every method throws `SyncError`; `errorCode` then is the workspace API's own, where it has one:
 * `branch_not_found`, `pull_request_exists`, `no_commits_between`, `unsupported_field`, `validation_failed`.
 */
export interface GitProvider {
  hasBranch(
    access: MemberAccess,
    wanted: InRepository & { readonly branch: string },
    signal: AbortSignal,
  ): Promise<boolean>;
  openPullRequest(access: MemberAccess, wanted: NewPullRequest, signal: AbortSignal): Promise<WrittenPullRequest>;
  editPullRequest(access: MemberAccess, edit: PullRequestEdit, signal: AbortSignal): Promise<WrittenPullRequest>;
}

/** When and under which id a sample is sent. */
export interface SampleMoment {
  /** Epoch milliseconds. */
  readonly at: number;
  /** Of the delivery. */
  readonly id: string;
  /** What the names in the connection's configuration lead to. */
  readonly bindings: readonly Binding[];
}

/** A made-up event of a vendor, about something that no vendor has. */
export interface SampleEvent<Options> {
  /** For people. */
  readonly about: string;
  /** Those that name the event. */
  readonly headers: Readonly<Record<string, string>>;
  /** About something in the scope of the connection. Throws `refused` where nothing in it has a known id. */
  payload(options: Options, moment: SampleMoment): object;
}

/** For trying a connection without its vendor. */
export interface Samples<Options> {
  /** By name. */
  readonly events: Readonly<Record<string, SampleEvent<Options>>>;
  /** Headers of the signature and of the delivery's id, by the vendor's own scheme. */
  sign(body: Buffer, secret: string, moment: Pick<SampleMoment, 'at' | 'id'>): Readonly<Record<string, string>>;
}

/**
 * One vendor. `verify` and `translate` are pure; `connect` builds what talks to the vendor.
 * Options are the connector's own part of a connection's configuration.
 */
export interface Connector<Options = never> {
  readonly id: string;
  /** What people call the vendor. */
  readonly title: string;
  /** The vendor's public host; repository ids of any other host are sent as `<host>:<id>`. */
  readonly publicHost: string;
  readonly capabilities: Capabilities;
  /** How people name its items in text. Absent: by web address and, where the identifier is one, by key. */
  readonly grammar?: Grammar;
  /** Largest webhook body the vendor sends, bytes. */
  readonly largestDelivery: number;
  /** The only status that the vendor accepts as success, if it refuses 202. */
  readonly accepted?: 200;
  readonly options: ZodType<Options>;
  /** Host that the ids of this connection belong to. */
  host(options: Options): string;
  /**
   * Shortest pause between two polls that the vendor's limits allow with these options, milliseconds.
   * A connector without it may be polled every minute.
   */
  shortestPoll?(options: Options): number;
  /** Whether `fetch` also brings the messages of a pull request's commits. Deliveries never carry all of them. */
  fetchesCommits?(options: Options): boolean;
  /**
   * Checks the signature over the raw bytes against every live secret, in constant time. Throws `SyncError`.
   *
   * @param now wall clock, epoch milliseconds, for signatures that are valid for some minutes only
   */
  verify(request: WebhookRequest, secrets: readonly string[], now: number): Promise<VerifiedRequest>;
  /** Pure: the same delivery always becomes the same items. Throws `delivery_malformed`. */
  translate(delivery: Pick<Delivery, 'source' | 'event' | 'body'>, options: Options): Translation;
  /**
   * Pure: what only one connection should use, for people to read, as `GitHub App 4711`: a second connection would take over
   * its webhook and use up its limit.
   */
  exclusive?(options: Options): string | undefined;
  /** Pure: options without credentials whose scope takes in everything on this host; for looking at payloads. */
  unrestricted?(host?: string): Options;
  /** Loads the sample events: nothing but `worksync trigger` needs them. */
  samples?(): Promise<Samples<Options>>;
  /** Pure: the webhook event that a payload of this shape belongs to, where its headers are not at hand. */
  eventOf?(payload: unknown): string | undefined;
  /** Pure: the names of single repositories, projects or teams in these options, as they are configured. */
  namesIn?(options: Options): readonly string[];
  /** Pure: the unit by which polls ask for something by its id; the id itself unless the connector says otherwise. */
  unitOf?(seen: NamedUnit): string;
  /** Pure: what `fetch` needs to get this item, when its deliveries cannot be ordered. Equal for equal items. */
  reference(item: Item): ItemReference;
  /** Pure: the grant by which these options get their access tokens, where they do. */
  oauth?(options: Options): OAuthGrant | undefined;
  connect(options: Options, deps: ConnectionDeps): Connection;
  /** Where the vendor is a git provider: what members may write there. */
  git?(deps: ConnectionDeps): GitProvider;
}
