import { z } from 'zod';
import type { Shape } from '../../platform/lib/shape.ts';
import { absent, instant, keptBy, parseAnswer } from '../kit/payload.ts';

/** The fields that are read, and no others (RM2); all but identity and time are `absent` where they drift. */

const id = z.int().min(1);
export const number = z.string().regex(/^[1-9]\d{0,15}$/);
const name = z.string().min(1);

const named = absent(z.object({ name }).nullable());

/** Redmine omits an empty person: a missing one is nobody, and an unreadable one is absent. */
const person = z.object({ id: z.int() }).nullable().default(null).or(z.undefined()).catch(undefined);

export const privacy = z.object({ is_private: absent(z.boolean()) });

export const issue = z.object({
  id,
  project: z.object({ id, name: absent(name) }),
  updated_on: instant,
  tracker: named,
  /** Newer versions report whether it is closed. */
  status: absent(z.object({ id: z.int(), name, is_closed: absent(z.boolean()) })),
  priority: named,
  author: person,
  assigned_to: person,
  subject: absent(z.string()),
  description: absent(z.string().nullable()),
  ...privacy.shape,
  created_on: absent(instant),
  closed_on: absent(instant.nullable()),
});

export type RedmineIssue = z.infer<typeof issue>;

export const status = z.object({ id: z.int(), name, is_closed: z.boolean().catch(false) });

export type Status = z.infer<typeof status>;

/** Statuses are stored beside issues that do not report whether they are closed. */
const statuses = absent(z.array(status));

export const project = z.object({
  id,
  identifier: z.string().regex(/^[a-z0-9_-]{1,100}$/),
  name: absent(name),
  is_public: absent(z.boolean()),
});

/** With its modules, if Redmine reports them. */
export const container = project.extend({ enabled_modules: absent(z.array(z.object({ name }))) });

export type Project = z.infer<typeof project> & Partial<z.infer<typeof container>>;

/** The body that a poll writes. */
export const list = z.object({ issues: z.array(issue), statuses });

/** An issue as it is stored: with the project if its scope is still to be checked. */
export const fetched = z.object({ issue, statuses, project: project.optional() });

export type Fetched = z.infer<typeof fetched>;

/** The part that every webhook has; its type decides on the subject. */
export const event = z.object({ type: z.string().regex(/^[a-z_]+\.[a-z_]+$/) });

/** Only the identity of an event's issue: worksync reads the issue itself. */
export const issueEvent = z.object({
  data: z.object({ issue: z.object({ id, project: absent(z.object({ id }).nullable()) }) }),
});

/** A note on an issue, and nothing else: `details` are the changes. */
export const noted = z.object({
  data: z.object({
    journal: z.object({ notes: z.string(), user: z.object({ id }), details: z.array(z.unknown()).length(0) }),
  }),
});

export const page = z.object({ issues: z.array(z.unknown()), total_count: z.int().min(0) });

export const numbered = z.object({ id });

/** Throws `answer_malformed` for an element without a number. */
export function numberOf(found: unknown, what: string): number {
  return parseAnswer(numbered, found, what).id;
}

export const placed = z.object({ issue: z.looseObject({ project: z.looseObject({ id }) }) });

const listed = project.extend({ status: absent(z.int()) });

export type ListedProject = z.infer<typeof listed>;

export const projects = z.object({ projects: z.array(listed), total_count: z.int().min(0) });

export const allStatuses = z.object({ issue_statuses: z.array(status) });

const journal = z.object({ id, notes: absent(z.string()), user: absent(z.object({ id: z.int() })) });

export const withJournals = z.object({ journals: z.array(journal) });

export const myself = z.object({ user: z.object({ id: z.int() }) });

export const current = z.object({
  status: status.partial({ name: true }),
  allowed_statuses: absent(z.array(status)),
});

export const { kept: KEPT, slim } = keptBy(issue);

export const KEPT_PAGE: Shape = { issues: KEPT, total_count: true };
