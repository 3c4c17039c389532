import { z } from 'zod';
import { keep, type Shape } from '../../lib/shape.ts';
import { absent, instant } from '../kit/fields.ts';

/**
 * The fields that are read, and no others (providers' facts §9). Identity and time must be there; any other field that
 * is missing, or that has become something else, is absent: it is then neither compared nor cleared.
 */

export const id = z.int().min(1);
const name = z.string().min(1);

const named = absent(z.object({ name }).nullable());

/** Redmine leaves out who is not there: a person that is missing is nobody, and one that cannot be read is absent. */
const person = z.object({ id: z.int() }).nullable().default(null).or(z.undefined()).catch(undefined);

export const privacy = z.object({ is_private: absent(z.boolean()) });

export const issue = z.object({
  id,
  project: z.object({ id, name: absent(name) }),
  updated_on: instant,
  tracker: named,
  /** Newer versions tell whether it is closed. */
  status: absent(z.object({ id: z.int(), name, is_closed: absent(z.boolean()) })),
  priority: named,
  author: person,
  assigned_to: person,
  subject: absent(z.string()),
  description: absent(z.string().nullable()),
  ...privacy.shape,
  created_on: absent(instant),
});

export type RedmineIssue = z.infer<typeof issue>;

export const status = z.object({ id: z.int(), name, is_closed: z.boolean().catch(false) });

export type Status = z.infer<typeof status>;

/** Statuses stand beside issues where these do not tell whether theirs is closed. */
const statuses = absent(z.array(status));

export const project = z.object({
  id,
  identifier: z.string().regex(/^[a-z0-9_-]{1,100}$/),
  name: absent(name),
});

export type Project = z.infer<typeof project>;

/** What a poll writes. */
export const list = z.object({ issues: z.array(issue), statuses });

/** What `fetch` writes: with the project where it is still to be seen whether that is followed. */
export const fetched = z.object({ issue, statuses, project: project.optional() });

/** What `fetch` writes for an issue that exists no more. */
export const gone = z.object({ id, projectId: id, project: project.optional(), seenAt: z.iso.datetime() });

/** What every webhook has; what it is about, its type tells. */
export const event = z.object({ type: z.string().regex(/^[a-z_]+\.[a-z_]+$/) });

/** Of an event's issue only what names it: it is read anew. */
export const issueEvent = z.object({
  data: z.object({ issue: z.object({ id, project: absent(z.object({ id }).nullable()) }) }),
});

/** A note on an issue, and nothing else: `details` are what it changed. */
export const noted = z.object({
  data: z.object({
    journal: z.object({ notes: z.string(), user: z.object({ id }), details: z.array(z.unknown()).length(0) }),
  }),
});

const NAMED: Shape = { id: true, name: true };

export const KEPT: Shape = {
  id: true,
  project: NAMED,
  updated_on: true,
  tracker: NAMED,
  status: { id: true, name: true, is_closed: true },
  priority: NAMED,
  author: { id: true },
  assigned_to: { id: true },
  subject: true,
  description: true,
  is_private: true,
  created_on: true,
};

/** Pure: leaves out what no schema here reads. */
export function slim(found: unknown): unknown {
  return keep(found, KEPT);
}
