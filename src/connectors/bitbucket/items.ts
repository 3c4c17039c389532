import { z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import type { PullRequest, PullRequestState, ReviewDecision } from '../../model/item.ts';
import type { Translation } from '../connector.ts';
import { revertedCommit, revertedNumber } from '../kit/commits.ts';
import { type GitVendor, goneItemReader, type Kind, referenceTo, translateItems } from '../kit/git.ts';
import { outOfScope, pullIdentityOf, type ScopeUnknown } from '../kit/items.ts';
import { omitUndefined, read, readable, sorted } from '../kit/payload.ts';
import { inScope } from '../kit/scope.ts';
import { timeOf } from '../kit/walk.ts';
import { HOST, type Options, REPOSITORY, scopeOf } from './options.ts';
import * as schema from './schema.ts';

const locator = z.object({
  repoId: schema.uuid,
  repository: z.string().regex(REPOSITORY),
  number: z.string().regex(/^\d{1,16}$/),
});
export type Locator = z.infer<typeof locator> & ScopeUnknown;

const pulls: Kind<Options, Locator> = {
  kind: 'pull_request',
  noun: 'pullrequests',
  order: 'since',
  changedAt: (pull) => timeOf(pull, 'updated_on'),
  locator,
  locatorOf: ({ container: repoId, name: repository, number }) => ({ repoId, repository, number }),
  itemsOnPage: (page) => read(schema.page, page).values.map((pull) => toItem(pull)),
  requiredFields: ['state', 'title', 'headBranch', 'baseBranch'],
  itemOf: pullOf,
  rowOfGone: ({ repoId, repository, number }, seenAt) => {
    return { repository: { uuid: repoId, full_name: repository }, id: Number(number), seen_at: seenAt };
  },
  goneItemOf: goneItemReader(schema.gone, ({ repository, id }) => identityOf(repository, id)),
};

export const kinds = [pulls] as const;

/** The event that Bitbucket's test button sends, where there is one. */
const TEST_EVENT = 'diagnostics:ping';

/** Future `pullrequest:` events will contain the pull request too, as all present ones do. */
export const parseWebhook: GitVendor<Options, Locator>['parseWebhook'] = (event) => {
  if (event === TEST_EVENT) return () => ({ outcome: 'ignored', reason: 'test_delivery' });
  return event.startsWith('pullrequest:') ? pullRequestEvent : undefined;
};

/** Takes the pull request that the event contains, whatever the event is about. */
function pullRequestEvent(payload: unknown, options: Options): Translation {
  const { pullrequest: named, repository } = read(schema.namedPull, payload);
  const destination = named.destination?.repository ?? repository;
  if (!destination) throw new SyncError('delivery_malformed', 'the pull request names no repository');
  const { uuid: id, full_name: name } = destination;
  const isFork = Boolean(repository?.parent ?? destination.parent);
  if (!inScope({ id, name, fork: isFork }, scopeOf(options))) return outOfScope('repository');
  const event = readable(schema.pullRequestEvent, payload);
  if (event) return translateItems(pulls, [toItem(event.pullrequest, repository)]);
  // The payload has drifted, but still names its pull request.
  return { outcome: 'references', references: [referenceTo(pulls, identityOf(destination, named.id))] };
}

/** Declined and superseded requests are final: neither can be opened again (BB4). */
const STATES: ReadonlyMap<string, PullRequestState> = new Map([
  ['OPEN', 'open'],
  ['MERGED', 'merged'],
  ['DECLINED', 'declined'],
  ['SUPERSEDED', 'declined'],
]);

/** Reads what `fetch` writes, and what the API answers. Throws `delivery_malformed`. */
export function pullOf(content: unknown): PullRequest {
  return toItem(read(schema.fetchedPullRequest, content));
}

/**
 * Bitbucket has no labels and no assignees, and does not tell the time of a merge or a closing. So `mergedAt` and `closedAt` are
 * absent in every state: a null of an open pull request would stay after the merge.
 */
function toItem(pull: schema.BitbucketPullRequest, eventRepository?: schema.BitbucketRepository): PullRequest {
  const repository = pull.destination?.repository ?? eventRepository;
  if (!repository) throw new SyncError('delivery_malformed', 'the pull request names no repository');
  const facts = { ...(eventRepository?.uuid === repository.uuid && eventRepository), ...omitUndefined(repository) };
  return {
    ...identityOf(repository, pull.id),
    updatedAt: pull.updated_on.at,
    version: pull.updated_on.micros,
    ...omitUndefined({
      url: pull.links?.html.href,
      title: pull.title,
      description: pull.description,
      author: pull.author === null ? null : pull.author?.uuid,
      isBot: pull.author?.type === 'app_user' ? true : undefined,
      reviewers: sorted(pull.reviewers?.map((account) => account.uuid)),
      reviewDecision: reviewDecision(pull.participants),
      isQueued: pull.queued,
      createdAt: pull.created_on && new Date(pull.created_on.at).toISOString(),
      state: pull.state === undefined ? undefined : STATES.get(pull.state),
      rawState: pull.state,
      draft: pull.draft,
      headBranch: pull.source?.branch?.name,
      headSha: pull.source?.commit?.hash,
      commitMessages: pull.commit_messages,
      commitsSha: pull.commit_messages && pull.source?.commit?.hash,
      baseBranch: pull.destination?.branch?.name,
      defaultBranch: facts.mainbranch?.name,
      isPublic: facts.is_private === undefined ? undefined : !facts.is_private,
      isFork: pull.source?.repository === undefined ? undefined : pull.source.repository?.uuid !== repository.uuid,
      reverts: revertedNumber(pull.description, [pull.title, REVERT_TITLE], [pull.source?.branch?.name, REVERT_BRANCH]),
      revertsCommit: revertedCommit(pull.description),
      mergeCommits: pull.merge_commit ? [pull.merge_commit.hash] : undefined,
    }),
  };
}

/** Bitbucket's button makes both: `Revert "Merged in fix-login (pull request #7)"`, and `revert-pr-7` (BB10). */
const REVERT_TITLE = /^Revert ".*\(pull request #([1-9]\d{0,15})\)"?$/;
const REVERT_BRANCH = /^revert-pr-([1-9]\d{0,15})$/;

/** The decision of all who took part (BB9). Requested changes outweigh approvals. */
function reviewDecision(participants: schema.BitbucketPullRequest['participants']): ReviewDecision | undefined {
  if (!participants) return undefined;
  const changes = participants.filter(({ state }) => state === 'changes_requested');
  if (changes.length > 0) return decided('changes', changes);
  const approvals = participants.filter(({ state, approved }) => state === 'approved' || (!state && approved === true));
  return approvals.length > 0 ? decided('approved', approvals) : { state: 'none' };
}

function decided(state: ReviewDecision['state'], by: NonNullable<schema.BitbucketPullRequest['participants']>) {
  const times = by.flatMap(({ participated_on: time }) => time?.at ?? []);
  return { state, ...(times.length > 0 && { at: new Date(Math.max(...times)).toISOString() }) };
}

export function identityOf({ uuid: id, full_name: name }: { uuid: string; full_name?: string }, number: number) {
  return pullIdentityOf('bitbucket', HOST, { id, name }, number);
}

const pullRequestPayload = z.object({
  pullrequest: z.object({ state: z.string().optional(), created_on: z.string().optional(), updated_on: z.string() }),
  comment: z.object({ deleted: z.boolean().optional().catch(undefined) }).optional(),
  approval: z.unknown().optional(),
  changes_request: z.unknown().optional(),
});

const OF_STATE: ReadonlyMap<string | undefined, string> = new Map([
  ['MERGED', 'fulfilled'],
  ['DECLINED', 'rejected'],
]);

/**
 * Guesses the event key of a payload; only a header contains the key itself. An event that removes something looks like the one
 * that added it: for `unapproved` this answers `approved`, and both translate to the same.
 */
export function eventOf(payload: unknown): string | undefined {
  const told = readable(pullRequestPayload, payload);
  if (told) return `pullrequest:${changeOf(told)}`;
  if (typeof payload === 'object' && payload !== null && Object.hasOwn(payload, 'push')) return 'repo:push';
  return undefined;
}

function changeOf({ pullrequest, comment, ...extras }: z.infer<typeof pullRequestPayload>): string {
  if (comment) return comment.deleted === true ? 'comment_deleted' : 'comment_created';
  if (extras.approval !== undefined) return 'approved';
  if (extras.changes_request !== undefined) return 'changes_request_created';
  const { state, created_on, updated_on } = pullrequest;
  return OF_STATE.get(state) ?? (created_on === updated_on ? 'created' : 'updated');
}
