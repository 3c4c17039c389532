import { z } from 'zod';
import { commitMessages } from '../kit/commits.ts';
import { absent, instant as inUtc, keptBy, webAddress } from '../kit/payload.ts';
import { PROJECT } from './options.ts';

/** The fields that are read, and no others (GL4); all but identity and time are `absent` where they drift. */

const id = z.int().positive();
const text = z.string().min(1);
const account = z.object({ username: text });
const accounts = absent(z.array(account));
// The API has the state of the account here.
const reviewers = absent(z.array(account.extend({ state: absent(z.string()) })));
const ids = absent(z.array(z.int()));
const url = absent(webAddress);
const path = z.string().regex(PROJECT);

/** Webhooks write `2017-09-15 16:50:55 UTC`, or `2026-11-20 18:08:11 +0200` if the server has another time zone. */
const HOOK_TIME = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? (?:UTC|([+-]\d\d):?(\d\d))$/;

function asRfc3339(given: string): string {
  const [, day, time, hours, minutes] = HOOK_TIME.exec(given) ?? [];
  if (day === undefined) return given;
  return `${day}T${time}${hours === undefined ? 'Z' : `${hours}:${minutes}`}`;
}

/** An instant in either of GitLab's two forms, always as RFC 3339 in UTC. */
const instant = z
  .string()
  .transform(asRfc3339)
  .pipe(inUtc)
  .transform((given) => new Date(given).toISOString());

const ofAll = {
  iid: id,
  updated_at: instant,
  title: absent(z.string()),
  description: absent(z.string().nullable()),
  created_at: absent(instant),
  closed_at: absent(instant.nullable()),
};

const ofMergeRequests = {
  ...ofAll,
  state: absent(z.enum(['opened', 'closed', 'merged', 'locked'])),
  draft: absent(z.boolean()),
  work_in_progress: absent(z.boolean()),
  source_branch: absent(text),
  target_branch: absent(text),
  // Null for a deleted fork.
  source_project_id: absent(id.nullable()),
  target_project_id: absent(id),
  detailed_merge_status: absent(z.string()),
};

const ofIssues = {
  ...ofAll,
  id,
  state: absent(z.enum(['opened', 'closed'])),
  // An issue whose flag cannot be read counts as confidential.
  confidential: z.boolean().optional().catch(true),
  type: absent(text),
};

/** Fields that only the REST API has, or that webhooks write differently. */
const inApi = {
  project_id: id,
  references: absent(z.object({ full: z.string() })),
  author: absent(account.nullable()),
  assignees: accounts,
  // Objects if a request wants label details; texts otherwise.
  labels: absent(z.array(text)),
  web_url: url,
};

/** The issue that GitLab made from this one, in another project; null if it was not moved. */
const moved = { moved_to_id: absent(id.nullable()) };

const mergedBy = { merge_commit_sha: absent(text.nullable()), squash_commit_sha: absent(text.nullable()) };

/** A merge request, and an issue, of the REST API, in a list or alone. */
export const mergeRequest = z.object({
  ...ofMergeRequests,
  ...inApi,
  sha: absent(text),
  reviewers,
  ...mergedBy,
  merged_at: absent(instant.nullable()),
});
export const issue = z.object({
  ...ofIssues,
  ...inApi,
  issue_type: absent(text),
  ...moved,
  _links: absent(z.object({ closed_as_duplicate_of: absent(z.string().nullable()) })),
});

/** The approvals of a merge request. Newer servers name the times too (GL14). */
export const approvals = z.object({ approved_by: z.array(z.object({ approved_at: absent(instant.nullable()) })) });

/** The facts about its project that a poll adds to a merge request. */
export const projectFacts = z.object({ default_branch: absent(text), visibility: absent(text) });
export const polledMergeRequest = mergeRequest.extend({ project: absent(projectFacts) });

/** The body that `fetch` writes. */
export const fetchedMergeRequest = mergeRequest.extend({
  commit_messages: commitMessages,
  approvals: absent(approvals),
});

export type GitlabMergeRequest = z.infer<typeof mergeRequest> &
  Partial<z.infer<typeof fetchedMergeRequest> & z.infer<typeof polledMergeRequest>>;
export type GitlabIssue = z.infer<typeof issue>;

const titles = absent(z.array(z.object({ title: text })));
/** Ids in place of the author, no time of the merge. */
const inHook = { assignee_ids: ids, labels: titles, url, action: absent(text), author_id: absent(id) };
const people = {
  labels: titles,
  assignees: accounts,
  reviewers,
  user: absent(z.object({ id: absent(id), username: text })),
};

/** Actions that report the time of a change which no field contains. */
const PHASE_ACTIONS: ReadonlySet<string> = new Set(['approved', 'unapproved', 'approval', 'unapproval', 'reopen']);

/** Converts a webhook to the fields of the REST API. Webhooks name only the acting `user`, so the author is absent. */
function asInApi<Own extends z.infer<z.ZodObject<typeof inHook & typeof ofAll>>>(
  { labels, assignees, user }: { labels?: Titles; assignees?: Accounts; user?: Actor },
  own: Own,
) {
  return {
    ...own,
    authorName: user?.id !== undefined && user.id === own.author_id ? user.username : undefined,
    // Webhooks make the addresses of images absolute. Used unchanged, such a text would change again with each answer of the API.
    description: own.description?.includes('![') ? undefined : own.description,
    labels: (labels ?? own.labels)?.map(({ title }) => title),
    assignees: named(assignees, own.assignee_ids),
    web_url: own.url,
    // Webhooks have whole seconds.
    isCreation: own.action === 'open' ? (true as const) : undefined,
    changesPhase: PHASE_ACTIONS.has(own.action ?? '') ? (true as const) : undefined,
  };
}

type Titles = z.infer<typeof titles>;
type Accounts = z.infer<typeof accounts>;
type Actor = z.infer<typeof people.user>;

/** GitLab omits an empty list. The list of numbers distinguishes an empty list from one that this event does not contain. */
function named<Listed extends Accounts>(
  listed: Listed,
  numbers: readonly number[] | undefined,
): Listed | never[] | undefined {
  return listed ?? (numbers?.length === 0 ? [] : undefined);
}

export const mergeRequestHook = z
  .object({
    object_attributes: z.object({
      ...ofMergeRequests,
      ...inHook,
      ...mergedBy,
      last_commit: absent(z.object({ id: text })),
      reviewer_ids: ids,
    }),
    ...people,
    system_action: absent(z.string()),
    changes: absent(z.object({ draft: z.unknown(), reviewers: z.unknown() }).partial()),
  })
  .transform(({ object_attributes: own, changes = {}, ...beside }) => ({
    ...asInApi(beside, own),
    ...((changes.draft !== undefined || changes.reviewers !== undefined) && { changesPhase: true as const }),
    sha: own.last_commit?.id,
    systemAction: beside.system_action,
    reviewers: named(beside.reviewers, own.reviewer_ids),
  }));

export const issueHook = z
  .object({
    object_attributes: z.object({ ...ofIssues, ...inHook, ...moved, duplicated_to_id: absent(id.nullable()) }),
    ...people,
  })
  .transform(({ object_attributes: own, ...beside }) => asInApi(beside, own));

/** A merge request, and an issue, of the API or of a webhook. */
export type ToldMergeRequest = Omit<GitlabMergeRequest, 'project_id' | 'references'> & OfEvent;
export type ToldIssue = Omit<GitlabIssue, 'project_id' | 'references'> & OfEvent;

interface OfEvent {
  readonly isCreation?: true | undefined;
  /** The event reports that the state, the reviewers or an approval changed. */
  readonly changesPhase?: true | undefined;
  /** The author's username, if the author caused the event. */
  readonly authorName?: string | undefined;
  readonly systemAction?: string | undefined;
  readonly duplicated_to_id?: number | null | undefined;
}

/** The project of a webhook. Payloads have the number in several places, older versions only outside of `project`. */
export interface HookProject {
  readonly id: number;
  /** Absent if the webhook does not contain it. */
  readonly path_with_namespace?: string | undefined;
  readonly visibility_level?: number | undefined;
  readonly default_branch?: string | undefined;
}

const told = { path_with_namespace: absent(path), visibility_level: absent(z.int()), default_branch: absent(text) };
const project = absent(z.object({ id: absent(id), ...told }).nullable());

/** The places at which versions of GitLab name the project of a webhook: for a merge request, its target. */
const inProject = absent(
  z.object({
    target_project_id: absent(id),
    project_id: absent(id),
    target: absent(z.object(told)),
  }),
);
export const placed = z.object({
  project,
  project_id: absent(id),
  object_attributes: inProject,
  merge_request: inProject,
  issue: inProject,
});

export const placedInList = z.object({ project_id: id, references: absent(z.object({ full: z.string() })) });

export const hookKind = z.object({ object_kind: absent(z.string()) });

export const namedMergeRequest = z.object({ object_attributes: z.object({ iid: id }) });
export const namedIssue = z.object({ object_attributes: z.object({ id, iid: id }) });

export const noteHook = z.object({
  object_attributes: absent(z.object({ noteable_type: absent(z.string()) })),
  merge_request: absent(z.looseObject({})),
  issue: absent(z.looseObject({})),
});

/** The body that `fetch` writes for an item that no longer exists. */
export const gone = z.object({ project_id: id, iid: id, seen_at: instant });
export const goneIssue = gone.extend({ id });

export const identities = z.array(z.object({ id, project_id: id, iid: id, confidential: ofIssues.confidential }));

/** The fields that identify the event of a webhook without its headers. */
export const kindOfHook = z.object({
  object_kind: z.string().regex(/^[a-z_]{1,40}$/),
  event_type: absent(z.string()),
});

export const { kept: KEPT, slim } = keptBy(mergeRequest.extend(issue.shape));
