/**
 * An item is the latest known state of one external thing: a pull request or a work item.
 *
 * A field that a payload does not carry is absent (`undefined`): it is never compared and never cleared.
 * `null` is a value: the provider reports that there is none.
 */

/** Natural key: connector + host + the vendor's stable id. Never a connection, a name or a URL. */
export type ItemKey = string;

export type PullRequestState = 'open' | 'closed' | 'merged' | 'declined';
type WorkItemState = 'open' | 'in_progress' | 'done';

interface ItemBase {
  readonly key: ItemKey;
  /** The connector's id, for example `github`. */
  readonly connector: string;
  /** Host that the ids belong to, lower case, for example `github.com` (Jira: cloud id; Linear: organisation id). */
  readonly host: string;
  /** The provider's own time of this state, epoch milliseconds. Newest wins. */
  readonly updatedAt: number;
  /** The time that the provider reported, if it was too far ahead of our clock, so that `updatedAt` differs. A stored key. */
  readonly toldAt?: number;
  /** The newest plausible time of the provider before `toldAt`. A stored key. */
  readonly provenAt?: number;
  /** Orders states that share a time, where the vendor has such a number. */
  readonly version?: number;
  /**
   * True if the event of its creation reported this state: every other state with that time is later.
   * For vendors whose times are too coarse to show it.
   */
  readonly isCreation?: boolean;
  /**
   * True if the thing no longer exists, or the provider no longer shows it to this credential, which looks the same.
   * Gone items write nothing; their records, links and tasks in the workspace stay. Does not depend on `updatedAt`, see
   * `sync/reconcile/newest-wins.ts`.
   */
  readonly gone?: boolean;
  readonly url?: string;
  readonly title?: string;
  readonly description?: string | null;
  /** The login of the person who opened it, or the account UUID if the vendor has no logins. */
  readonly author?: string | null;
  readonly labels?: readonly string[];
  readonly assignees?: readonly string[];
  /** E-mail addresses of people named above, by the name used there, if the vendor reports them. */
  readonly emails?: Readonly<Record<string, string>>;
  /** RFC 3339, UTC. */
  readonly createdAt?: string;
  /** RFC 3339, UTC; null while it is open, and if the vendor knows no time of its closing. Also set by a merge. */
  readonly closedAt?: string | null;
  /** When the item was last finished, also if it is open again; RFC 3339, UTC. Set by `sync/reconcile/newest-wins.ts`. */
  readonly lastClosedAt?: string;
  /** When a work item was opened or reopened, as far as that was observed; RFC 3339, UTC. Set like `lastClosedAt`. */
  readonly openSince?: string;
  /**
   * Time of the last reported change of its state; RFC 3339, UTC. Absent: nothing has reported one. Of a pull request: when
   * it became a draft or ready, was queued or reopened, or its reviewers were changed.
   */
  readonly phaseChangedAt?: string;
  /** Whether everybody may read its repository or project. Absent: unknown. */
  readonly isPublic?: boolean;
  /** The author is a bot or a service account. */
  readonly isBot?: boolean;
  /** The author belongs to the project. Never false, because vendors do not show all members. */
  readonly isAuthorMember?: true;
}

/**
 * The opinion of a review:
 *
 *   approved, changes  the reviewer approves, or requests changes
 *   commented          the review decides nothing
 *   dismissed          the review counts no more; no later report restores it
 */
export type ReviewState = 'approved' | 'changes' | 'commented' | 'dismissed';

export interface Review {
  readonly reviewer: string;
  readonly state: ReviewState;
  /** When it was submitted; RFC 3339, UTC. */
  readonly at: string;
  /** The reviewer belongs to the project. Absent: unknown. */
  readonly isMember?: true;
}

/** The decision that all reviews make together. */
export interface ReviewDecision {
  readonly state: 'approved' | 'changes' | 'none';
  /** When the latest of them was submitted; RFC 3339, UTC. Absent: the vendor does not say. */
  readonly at?: string;
}

export interface PullRequest extends ItemBase {
  readonly kind: 'pull_request';
  /** The vendor's stable repository id, as a string. */
  readonly repoId: string;
  /** Display name of the repository, for people only. */
  readonly repoName?: string;
  /** Number within the repository, as a string. */
  readonly identifier: string;
  /** The sign between the repository and the number in its name for people. Absent: `#`. */
  readonly numberSign?: string;
  readonly state?: PullRequestState;
  /** The vendor's own word for the state, for people. */
  readonly rawState?: string;
  readonly draft?: boolean;
  readonly headBranch?: string;
  readonly baseBranch?: string;
  readonly headSha?: string;
  /** The reviewers who are asked. At GitHub a reviewer leaves the list with a review. */
  readonly reviewers?: readonly string[];
  /** By the vendor's id of the review. Reported one by one, so they are merged: see `sync/reconcile/newest-wins.ts`. */
  readonly reviews?: Readonly<Record<string, Review>>;
  /** From vendors that report the present decision instead of single reviews. */
  readonly reviewDecision?: ReviewDecision;
  /** The `updatedAt` of the item when a fetch last read its reviews or its decision. */
  readonly reviewsReadAt?: number;
  /** In the merge queue, or in the merge train. */
  readonly isQueued?: boolean;
  /** Its head branch lies in another repository, or in one that was deleted. */
  readonly isFork?: boolean;
  readonly defaultBranch?: string;
  /** The identifier of the pull request of the same repository that it reverts, by the vendor's own text. */
  readonly reverts?: string | null;
  /** The hash of the commit that it reverts, by git's own text. */
  readonly revertsCommit?: string | null;
  /** The hashes of the commits that merged it: of the merge, of the squash, or both. */
  readonly mergeCommits?: readonly string[];
  /** RFC 3339, UTC; null while it is not merged. */
  readonly mergedAt?: string | null;
  /** Its base and the default branch at its merge: those of the oldest state that contains the merge. Set like `lastClosedAt`. */
  readonly mergedBaseBranch?: string;
  readonly mergedDefaultBranch?: string;
  /** Messages of its commits, newest first, if the connection fetches them; searched for names and trailers. */
  readonly commitMessages?: readonly string[];
  /** The head commit to which those messages belong. */
  readonly commitsSha?: string;
}

export interface WorkItem extends ItemBase {
  readonly kind: 'work_item';
  /** The vendor's stable id of its project, repository or team. */
  readonly containerId: string;
  /** The name of that project, repository or team for people: `ENG`, `acme/api`, `Website`. */
  readonly containerName?: string;
  /** Its name for people: `ENG-123`, `#45`. */
  readonly identifier: string;
  /** Its names for people before it was moved, if the vendor reports them. */
  readonly formerIdentifiers?: readonly string[];
  /** The item in which it goes on, where the vendor closed this one and copied it: that item takes over its names and its task. */
  readonly movedTo?: ItemKey;
  /**
   * The project, repository or team outside the scope of its connection that it was moved to, where no further change of it is
   * read. Null since it came back.
   */
  readonly movedAway?: string | null;
  readonly state?: WorkItemState;
  /** Done without a result: will not be done, a duplicate, archived. */
  readonly isDropped?: boolean;
  readonly rawState?: string;
  readonly type?: string | null;
  readonly priority?: string | null;
}

export type Item = PullRequest | WorkItem;

/** Points to an item whose payload was partial or doubtful, so that intake fetches the object. */
export interface ItemReference {
  readonly kind: Item['kind'];
  readonly key: ItemKey;
  /** Input of the connector's `fetch`, as plain JSON. Built from ids, never from a URL of a payload. */
  readonly locator: Readonly<Record<string, string>>;
}

/** `github:github.com:1296269:pull:1347` */
export function pullRequestKey(connector: string, host: string, repoId: string, identifier: string): ItemKey {
  return `${connector}:${host}:${repoId}:pull:${identifier}`;
}

/** `jira:<cloud id>:issue:10023` */
export function workItemKey(connector: string, host: string, id: string): ItemKey {
  return `${connector}:${host}:issue:${id}`;
}

/** Returns the place outside the scope, or the key of the item, where a work item goes on. Undefined: it was not moved. */
export function movedToOf(item: Item): string | undefined {
  return item.kind === 'work_item' ? (item.movedAway ?? item.movedTo) : undefined;
}

/** Whether an item is finished. Its changes are sent a little before others, because they are not outdated soon. */
export function isFinished(item: Item): boolean {
  return item.kind === 'pull_request' ? item.state !== undefined && item.state !== 'open' : item.state === 'done';
}

/** The states of a work item, as the configuration names them. */
export const WORK_ITEM_STATES = ['open', 'in_progress', 'completed', 'dropped'] as const;

/** Returns the state of a work item, as the configuration names it. */
export function configuredState({
  state,
  isDropped,
}: Pick<WorkItem, 'state' | 'isDropped'>): (typeof WORK_ITEM_STATES)[number] | undefined {
  if (state !== 'done') return state;
  return isDropped ? 'dropped' : 'completed';
}

/**
 * Returns the name of an item for people: `acme/api#12`, `group/project!12`, `ENG-123`. Undefined if its repository or
 * project has no known name. `ITEM_NAME` in `store/items/items.ts` selects the same name.
 */
export function displayNameOf(item: Item): string | undefined {
  if (item.kind === 'pull_request') return item.repoName && item.repoName + (item.numberSign ?? '#') + item.identifier;
  return item.identifier.startsWith('#') ? item.containerName && item.containerName + item.identifier : item.identifier;
}

/** The reason why a link between an item and a task exists. */
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
type NameForm = 'key' | 'short-id' | 'number' | 'host-number' | `${string}#` | `${string}-`;
