import { z } from 'zod';
import { commitMessages } from '../kit/commits.ts';
import { absent, isInstant, webAddress } from '../kit/payload.ts';
import { REPOSITORY } from './options.ts';

/** The fields that are read, and no others (BB7); all but identity and time are `absent` where they drift. */

const number = z.int().positive();

/** An id of a repository or an account, with the braces that Bitbucket writes around it. */
export const uuid = z.string().regex(/^\{[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}$/i);

const account = z.object({ uuid });

/** RFC 3339 with microseconds, `2026-03-02T08:00:00.123456+00:00`: milliseconds, and the microseconds within. */
const moment = z
  .string()
  .refine(isInstant, 'must be an instant of RFC 3339')
  .transform((text) => ({
    at: Date.parse(text),
    micros: Number(/\.\d{3}(\d{1,3})/.exec(text)?.[1]?.padEnd(3, '0') ?? 0),
  }));

/** A fork names its parent. */
export const repository = z.object({
  uuid,
  full_name: z.string().regex(REPOSITORY),
  parent: absent(z.looseObject({}).nullable()),
  is_private: absent(z.boolean()),
  mainbranch: absent(z.object({ name: z.string().min(1) }).nullable()),
});

/** A reviewer, or another participant. Old payloads lack the state. */
const participant = z.object({
  approved: absent(z.boolean()),
  state: absent(z.string().nullable()),
  participated_on: absent(moment.nullable()),
});

const branch = absent(z.object({ name: z.string().min(1) }));

export const pullRequest = z.object({
  id: number,
  updated_on: moment,
  state: absent(z.string().regex(/^[A-Z_]{1,40}$/)),
  title: absent(z.string()),
  description: absent(z.string().nullable()),
  draft: absent(z.boolean()),
  created_on: absent(moment),
  links: absent(z.object({ html: z.object({ href: webAddress }) })),
  author: absent(account.extend({ type: absent(z.string()) }).nullable()),
  reviewers: absent(z.array(account)),
  participants: absent(z.array(participant)),
  queued: absent(z.boolean()),
  merge_commit: absent(z.object({ hash: z.string().min(1) }).nullable()),
  // For a deleted fork Bitbucket sends null as the repository, and may do so as the commit.
  source: absent(
    z.object({
      branch,
      commit: absent(z.object({ hash: z.string().min(1) })),
      repository: absent(z.object({ uuid }).nullable()),
    }),
  ),
  destination: absent(z.object({ branch, repository: absent(repository) })),
});

/** The body that `fetch` writes. */
export const fetchedPullRequest = pullRequest.extend({ commit_messages: commitMessages });

export type BitbucketPullRequest = z.infer<typeof pullRequest> & Partial<z.infer<typeof fetchedPullRequest>>;
export type BitbucketRepository = z.infer<typeof repository>;

/** The parts that identify the pull request of a webhook, if the rest cannot be read. */
export const namedPull = z.object({
  pullrequest: z.object({ id: number, destination: absent(z.object({ repository: absent(repository) })) }),
  repository: absent(repository),
});

/** Every `pullrequest:*` webhook contains the whole pull request, those about comments and approvals too. */
export const pullRequestEvent = z.object({ pullrequest: pullRequest, repository: absent(repository) });

export const page = z.object({ values: z.array(pullRequest) });

/** The body that `fetch` writes for a pull request that no longer exists. */
export const gone = z.object({ repository, id: number, seen_at: z.iso.datetime() });

const FIELDS = [
  'id',
  'title',
  'description',
  'state',
  'draft',
  'queued',
  'merge_commit.hash',
  'created_on',
  'updated_on',
  'links.html.href',
  'author.uuid',
  'author.type',
  // Requested as a whole: Bitbucket may omit an empty list if only parts of its elements are requested.
  'reviewers',
  'participants',
  'source.branch.name',
  'source.commit.hash',
  'source.repository.uuid',
  'destination.branch.name',
  'destination.repository.uuid',
  'destination.repository.full_name',
  'destination.repository.is_private',
  'destination.repository.mainbranch.name',
];

/**
 * The fields in the form of the parameter `fields`: answers shrink to a tenth, and lists contain the reviewers and the main
 * branch, which they lack otherwise (BB11).
 */
export const FIELDS_OF_ONE = FIELDS.join(',');
export const FIELDS_OF_LIST = ['next', ...FIELDS.map((field) => `values.${field}`)].join(',');
