import { z } from 'zod';
import type { Shape } from '../../platform/lib/shape.ts';
import { absent, instant as inUtc, keptBy, readable } from '../kit/payload.ts';

/** The fields that are read, and no others (JI3); all but identity and time are `absent` where they drift. */

/** Jira writes its numbers as texts. */
export const id = z.string().regex(/^[1-9]\d{0,15}$/);
export const key = z.string().regex(/^[A-Z][A-Z0-9_]{0,254}-[1-9]\d{0,15}$/);
const text = z.string().min(1);
const name = absent(z.object({ name: text }).nullable());

/** `2026-01-31T10:11:12.000+0000`: an offset without a colon. */
const OFFSET = /([+-]\d\d)(\d\d)$/;
const instant = z
  .string()
  .transform((given) => given.replace(OFFSET, '$1:$2'))
  .pipe(inUtc)
  .transform((given) => new Date(given).toISOString());

const person = absent(
  z.object({ accountId: text, emailAddress: absent(z.email()), accountType: absent(text) }).nullable(),
);

const place = z.object({ id, key: z.string().regex(/^[A-Z][A-Z0-9_]{0,254}$/) });

export const project = place.extend({ archived: absent(z.boolean()) });

/** `service_desk` is a project of Jira Service Management. */
export const typedProject = z.object({ projectTypeKey: absent(z.string()) });

export type Project = z.infer<typeof project>;

export const projects = z.object({ values: z.array(project), isLast: z.boolean() });

/** Wiki text in webhooks, a document of Atlassian's format in the API's answers. */
const description = absent(z.union([z.string(), z.looseObject({ type: z.literal('doc') }), z.null()]));

export const issue = z.object({
  id,
  key,
  fields: z.object({
    project: place,
    updated: instant,
    summary: absent(z.string()),
    description,
    status: absent(z.object({ name: text, statusCategory: absent(z.object({ key: text })) })),
    resolution: name,
    resolutiondate: absent(instant.nullable()),
    statuscategorychangedate: absent(instant.nullable()),
    priority: name,
    issuetype: name,
    assignee: person,
    reporter: person,
    creator: person,
    labels: absent(z.array(text)),
    created: absent(instant),
  }),
});

export type JiraIssue = z.infer<typeof issue>;

/** The part that every event has; its name decides which of the parts below it has too. */
export const event = z.object({ webhookEvent: text });

/** Milliseconds of a time that a date can represent. */
const timestamp = z.int().min(0).max(8_640_000_000_000_000);

export const issueEvent = z.object({ issue });

/** A move to another project, in the change log of a webhook (JI8). */
export const moved = z.object({
  changelog: z.object({ items: z.array(z.looseObject({ field: absent(z.string()), fromString: absent(key) })) }),
});

/** An issue with a security level: only some people see it. */
export const restricted = z.object({
  issue: z.object({
    fields: z.object({ security: z.unknown().refine((level) => level !== undefined && level !== null) }),
  }),
});

export const issueDeleted = z.object({
  timestamp,
  issue: z.object({ id, key, fields: z.object({ project: place, updated: absent(instant) }) }),
});

const named = z.object({ id, key: absent(key), fields: absent(z.object({ project: absent(place) })) });
export const namedIssue = z.object({ issue: named });

/** Comments contain a part of their issue, or only their own address. */
export const commentEvent = z.object({
  issue: named.nullish(),
  comment: absent(z.object({ self: absent(z.string()) }).nullable()),
});

/** The text and the author of a comment; of a deleted one, its last text. */
export const toldComment = z.object({
  webhookEvent: z.enum(['comment_created', 'comment_updated']),
  comment: z.object({ id, body: z.string(), updateAuthor: z.object({ accountId: z.string() }) }),
});

export const page = z.object({
  issues: z.array(z.unknown()),
  nextPageToken: absent(z.string().nullable()),
  isLast: absent(z.boolean()),
});

const CHANGED_AT = z.object({ fields: z.object({ updated: z.string() }) });

/** Epoch milliseconds; NaN if it cannot be read. */
export function changedAt(found: unknown): number {
  return Date.parse(readable(CHANGED_AT, found)?.fields.updated.replace(OFFSET, '$1:$2') ?? '');
}

export const tenant = z.object({ cloudId: z.string().toLowerCase() });

export const account = z.object({ displayName: z.string().catch('without a name'), timeZone: absent(z.string()) });

export const me = z.object({ accountId: z.string() });

const writer = absent(me.nullable());

export const commented = z.object({ id, author: writer, updateAuthor: writer });

export const comments = z.object({
  comments: z.array(commented.extend({ body: z.unknown() })),
  total: z.int().min(0),
});

const category = z.object({ statusCategory: z.object({ key: z.string() }) });

export const currentStatus = z.object({ fields: z.object({ status: category }) });

const screenField = z.object({
  name: absent(text),
  required: z.boolean().catch(false),
  hasDefaultValue: z.boolean().catch(false),
});

const transition = z.object({
  id: z.string().regex(/^\d{1,16}$/),
  to: category.extend({ name: z.string() }),
  hasScreen: absent(z.boolean()),
  /** The fields of its screen, by their ids (JI7). */
  fields: absent(z.record(z.string(), screenField)),
});

export type Transition = z.infer<typeof transition>;

export const transitions = z.object({ transitions: z.array(transition) });

export const { kept: KEPT, slim } = keptBy(issue);

export const KEPT_PAGE: Shape = { issues: KEPT, nextPageToken: true, isLast: true };

/** All fields except ids must be requested. */
export const FIELDS = Object.keys(KEPT['fields'] as Shape).join(',');
