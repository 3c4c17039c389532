import { z } from 'zod';
import { absent, instant, UUID, webAddress } from '../kit/payload.ts';

/** The fields that are read, and no others (LI2); all but identity and time are `absent` where they drift. */
export const id = z.string().regex(UUID);
/** Keys of teams may begin with a digit: `4U-41`. */
export const identifier = z.string().regex(/^[A-Z0-9]{1,21}-[1-9]\d{0,15}$/);
const text = z.string().min(1);
const team = z.object({ id, key: z.string().regex(/^[A-Z0-9]{1,21}$/) });
const person = absent(z.object({ id: text, email: absent(z.email()), app: absent(z.boolean()) }).nullable());
const name = z.object({ name: text });

const common = {
  id,
  identifier,
  updatedAt: instant,
  /** The identifiers of the issue in other teams. */
  previousIdentifiers: absent(z.array(identifier)),
  title: absent(z.string()),
  description: absent(z.string().nullable()),
  url: absent(webAddress),
  priority: absent(z.number()),
  createdAt: absent(instant),
  completedAt: absent(instant.nullable()),
  canceledAt: absent(instant.nullable()),
  trashed: absent(z.boolean().nullable()),
  state: absent(z.object({ name: text, type: text })),
  assignee: person,
  creator: person,
  team,
};

export const issue = z.object({
  ...common,
  labels: absent(z.object({ nodes: z.array(name), pageInfo: z.object({ hasNextPage: z.boolean() }) })),
});

export type LinearIssue = z.infer<typeof issue>;

const organizationId = z.string().regex(UUID);

/** An issue of a webhook: people also by their ids, labels as a plain list. */
export const issueEvent = z.object({
  action: text,
  createdAt: absent(instant),
  /** The previous values of the changed fields. */
  updatedFrom: absent(z.looseObject({})),
  data: z.object({
    ...common,
    labels: absent(z.array(name)),
    assigneeId: absent(text.nullable()),
    creatorId: absent(text.nullable()),
  }),
});

export type IssueEvent = z.infer<typeof issueEvent>;

/** Older webhooks do not name their organisation; the secret then identifies it. */
export const organization = z.object({ organizationId: absent(organizationId) });

const named = z.object({ id, identifier: absent(identifier), team: absent(team.nullable()) });
export const namedIssue = z.object({ data: named });

/** A comment may belong to something else than an issue; older ones have its id only. */
export const commentEvent = z.object({
  data: z.object({ issue: absent(named.nullable()), issueId: absent(id.nullable()) }),
});

/** The text of a comment, and its actor. */
export const toldComment = z.object({
  action: z.enum(['create', 'update']),
  actor: z.object({ id }),
  data: z.object({ id, body: z.string() }),
});

/** A public team is visible to all members of the organisation; a private or restricted one to some of them. */
export const wholeTeam = z.object({ id, key: z.string(), name: z.string(), visibility: absent(z.string()) });

export type Team = z.infer<typeof wholeTeam>;

const user = absent(z.object({ id }).nullable());

export const standing = z.object({
  comments: z.object({ nodes: z.array(z.object({ id, body: z.string(), user })) }),
});

export const commented = z.object({ comment: z.object({ user }) });

export const closing = z.object({
  issues: z.object({
    nodes: z.array(
      z.object({
        state: z.object({ type: z.string() }),
        team: z.object({
          states: z.object({ nodes: z.array(z.object({ id, name: z.string(), position: z.number() })) }),
        }),
      }),
    ),
  }),
});

/** One issue, and whether its team can be seen. */
export const one = z.object({
  issues: z.object({ nodes: z.array(z.unknown()) }),
  teams: z.object({ nodes: z.array(z.unknown()) }),
});

export const who = z.object({
  viewer: z.object({ name: z.string().catch('without a name') }),
  organization: z.object({ id: z.string(), urlKey: z.string() }),
});
