import type { EmitterWebhookEvent } from '@octokit/webhooks';
import type { WebhookEventName } from '@octokit/webhooks/types';
import { z } from 'zod';
import { commitMessages } from '../kit/commits.ts';
import { absent, instant, keptBy, webAddress } from '../kit/payload.ts';
import { REPOSITORY } from './options.ts';

const id = z.int().positive();
const number = z.int().positive();
const named = <Name extends string>(name: Name) => z.object({ [name]: z.string().min(1) } as Record<Name, z.ZodString>);
const account = named('login');
const author = absent(account.extend({ type: absent(z.string()) }).nullable());
const team = z.object({ slug: absent(z.string().min(1)) });

/** GitHub documents lists that are null, which count as absent, and null elements, which are skipped. */
const list = <Element extends z.ZodType>(element: Element) =>
  z
    .array(element.nullable())
    .nullable()
    .transform((all) => all?.filter((each): each is NonNullable<typeof each> => each !== null));

/** The schema, if every payload that GitHub documents for these events fits it; otherwise a type error. */
const webhook =
  <Name extends WebhookEventName>() =>
  <Schema extends z.ZodType>(
    schema: EmitterWebhookEvent<Name>['payload'] extends z.input<Schema> ? Schema : never,
  ): Schema =>
    schema;

const repository = z.object({
  id,
  full_name: z.string().regex(REPOSITORY),
  archived: absent(z.boolean()),
  fork: absent(z.boolean()),
  private: absent(z.boolean()),
  default_branch: absent(z.string().min(1)),
});

/** The fields that are read, and no others (GH2). Identity and time must be there. */
export const pullRequest = z.object({
  number,
  updated_at: instant,
  state: absent(z.enum(['open', 'closed'])),
  title: absent(z.string()),
  body: absent(z.string().nullable()),
  draft: absent(z.boolean()),
  merged: absent(z.boolean().nullable()),
  merged_at: absent(instant.nullable()),
  // Before the merge, this is the commit of GitHub's test merge.
  merge_commit_sha: absent(z.string().nullable()),
  created_at: absent(instant),
  closed_at: absent(instant.nullable()),
  html_url: absent(webAddress),
  user: author,
  author_association: absent(z.string()),
  labels: absent(list(named('name'))),
  assignees: absent(list(account)),
  // GitHub documents teams here too.
  requested_reviewers: absent(list(z.union([account, team]))),
  requested_teams: absent(list(team)),
  head: absent(
    z.object({
      ref: absent(z.string().min(1)),
      sha: absent(z.string().min(1)),
      // Null for a deleted fork.
      repo: absent(z.object({ id }).nullable()),
    }),
  ),
  base: absent(z.object({ ref: absent(z.string().min(1)), repo: absent(repository) })),
});

/** The user is null for a deleted account, and the time is null or absent before the review is submitted. */
const review = z.object({
  id,
  state: z.string(),
  submitted_at: absent(instant.nullable()),
  user: account.nullable(),
  author_association: absent(z.string()),
});
export const reviewList = z.array(review);

/** The body that `fetch` writes. */
export const fetchedPullRequest = pullRequest.extend({ commit_messages: commitMessages, reviews: absent(reviewList) });

export type GithubPullRequest = z.infer<typeof pullRequest> & Partial<z.infer<typeof fetchedPullRequest>>;
export type GithubRepository = z.infer<typeof repository>;
export type GithubReview = z.infer<typeof review>;

/** Webhooks with a whole pull request. Its state matters; `action` only marks the first one, and those of the merge queue. */
export const pullRequestEvent = webhook<
  'pull_request' | 'pull_request_review' | 'pull_request_review_comment' | 'pull_request_review_thread'
>()(
  z.object({
    action: absent(z.string()),
    pull_request: pullRequest,
    repository: absent(repository),
    review: absent(review),
  }),
);

export const issue = z.object({
  id,
  number,
  updated_at: instant,
  state: absent(z.enum(['open', 'closed'])),
  state_reason: absent(z.string().nullable()),
  title: absent(z.string()),
  body: absent(z.string().nullable()),
  created_at: absent(instant),
  closed_at: absent(instant.nullable()),
  html_url: absent(webAddress),
  user: author,
  author_association: absent(z.string()),
  // An issue may have labels as plain texts.
  labels: absent(list(z.union([z.string().min(1), named('name')]))),
  assignees: absent(list(account)),
  type: absent(named('name').nullable()),
});

export type GithubIssue = z.infer<typeof issue>;

/** An issue that has comments. To GitHub a pull request is an issue too, with `pull_request`. */
const commented = z.object({ number, pull_request: z.looseObject({}).nullish() });

/** A comment on an issue, or on a pull request if `issue.pull_request` is present. */
export const issueCommentEvent = webhook<'issue_comment'>()(z.object({ issue: commented, repository }));

/** The pull request that a comment is on, as the event describes it: without branches, head and reviewers. */
export const pullOfConversation = z.object({
  issue: issue.extend({
    draft: absent(z.boolean()),
    pull_request: z.object({ html_url: absent(webAddress), merged_at: absent(instant.nullable()) }),
  }),
});

/** The parts that identify the pull request or issue of an event, if the rest cannot be read. */
export const namedPull = z
  .object({ pull_request: z.object({ number: absent(number), base: absent(z.object({ repo: absent(repository) })) }) })
  .and(z.object({ number: absent(number), repository: absent(repository) }));
export const namedIssue = z.object({ action: absent(z.string()), issue: z.object({ id, number }), repository });

export const issueEvent = webhook<'issues' | 'issue_comment'>()(
  z.object({ action: absent(z.string()), issue, repository }),
);

/** The new issue and its repository in the event of a transfer. */
export const transfer = z.object({
  changes: z.object({ new_issue: z.object({ id, number }), new_repository: repository }),
});

/** A page of a repository's issues, and one issue, as `poll` and `fetch` write them. */
export const issueList = z.object({ repository, issues: z.array(issue) });
export const oneIssue = z.object({ repository, issue });

/** The bodies that `fetch` writes for a pull request, and for an issue, that no longer exists. */
export const gone = z.object({ repository, number, seen_at: instant });
export const goneIssue = z.object({ repository, number, id, seen_at: instant });

export const { kept: KEPT, slim } = keptBy(pullRequest);
export const { kept: KEPT_OF_REVIEW } = keptBy(review);
export const { kept: KEPT_OF_ISSUE, slim: slimIssue } = keptBy(issue);
