import type { Capabilities } from '../../connectors/connector.ts';
import type { PullRequest } from '../../model/item.ts';
import { externalIdOf } from '../../model/link.ts';
import { cut, LONGEST_NAME, LONGEST_TEXT, LONGEST_TITLE, MOST_NAMES } from '../../model/text-limits.ts';

/** The record that the workspace should hold for a pull request (W58, W59). Absent: we have no opinion. */
export interface PullRequestRecord {
  readonly provider: string;
  readonly repoId: string;
  readonly identifier: string;
  readonly title: string;
  readonly headBranch: string;
  readonly baseBranch: string;
  readonly description?: string;
  readonly state?: string;
  readonly draft?: boolean;
  readonly url?: string;
  readonly author?: string | null;
  readonly reviewers?: readonly string[];
  readonly labels?: readonly string[];
  readonly assignees?: readonly string[];
  readonly createdAt?: string;
  readonly mergedAt?: string | null;
}

/** The work-item link that a task should have (W39). */
export interface LinkRecord {
  readonly url: string;
  readonly title?: string;
  readonly externalId: string;
  readonly provider: string;
}

/** What the core knows of the connector that an item came through. */
export interface Vendor {
  readonly id: string;
  readonly publicHost: string;
  readonly capabilities: Capabilities;
}

/** The repository id as the workspace gets it: `<host>:<id>` for a host other than the vendor's public one. */
export function sentRepoId(item: PullRequest, vendor: Vendor): string {
  return item.host === vendor.publicHost ? item.repoId : `${item.host}:${item.repoId}`;
}

/** Undefined while a field that the workspace requires is not known yet. */
export function desiredRecord(item: PullRequest, vendor: Vendor): PullRequestRecord | undefined {
  // The workspace trims titles; one that was not trimmed here would look different for ever.
  const title = item.title?.trim();
  if (item.gone || !title || !item.headBranch || !item.baseBranch) return undefined;
  const can = vendor.capabilities;
  return withoutAbsent({
    provider: vendor.id,
    repoId: sentRepoId(item, vendor),
    identifier: item.identifier,
    title: cut(title, LONGEST_TITLE),
    // The workspace knows no null here: a description that is known to be empty is the empty text.
    description: item.description === undefined ? undefined : cut(item.description ?? '', LONGEST_TEXT),
    headBranch: item.headBranch,
    baseBranch: item.baseBranch,
    state: item.state,
    draft: can.supportsDraft ? item.draft : undefined,
    url: item.url,
    author: item.author && item.author.length > LONGEST_NAME ? undefined : item.author,
    reviewers: can.supportsReviewers ? asSet(item.reviewers) : undefined,
    labels: can.supportsLabels ? asSet(item.labels) : undefined,
    assignees: can.supportsAssignees ? asSet(item.assignees) : undefined,
    createdAt: item.createdAt,
    mergedAt: item.mergedAt,
  });
}

export function desiredLink(item: {
  key: string;
  connector: string;
  url?: string;
  title?: string;
}): LinkRecord | undefined {
  if (!item.url) return undefined;
  return withoutAbsent({
    url: item.url,
    title: item.title === undefined ? undefined : cut(item.title, LONGEST_TITLE),
    externalId: externalIdOf(item.key),
    provider: item.connector,
  });
}

/**
 * Vendors give lists of names in changing order; the order means nothing. A name that is longer than any vendor lets people
 * write would have the whole record refused.
 */
function asSet(values: readonly string[] | undefined): readonly string[] | undefined {
  const names = values?.filter((name) => name.length <= LONGEST_NAME);
  return names && [...new Set(names)].sort().slice(0, MOST_NAMES);
}

function withoutAbsent<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Value;
}
