/**
 * A change is one entity on which desired and known differ: a row of the outbox. It holds no payload: what is sent is
 * computed from `desired` against `known` when a quota slot is free.
 *
 * States and who moves them:
 *
 *   pending  waits for its due time and a free slot. Set by reconcile (a difference appeared), by settle (the answer
 *            came and desired has moved on meanwhile, or the attempt failed and may be repeated).
 *   sending  one transaction computed the body, stored it as in flight and wrote the ledger row; the request is, or
 *            is about to be, in flight. New facts change `desired` only. One request in flight per entity.
 *   unknown  the request got no answer, or the process died while it was `sending`, and repeating it could double
 *            something. It waits for the read that settles it (see `settlement`).
 *   held     needs approval: the workspace refused it for good, or a guard stopped it.
 *
 *   pending → sending → (settled: the row is removed | pending | unknown | held);  unknown → pending | settled;
 *   held → pending (someone released it, or what it would send changed).
 */
export const CHANGE_STATES = ['pending', 'sending', 'unknown', 'held'] as const;
export type ChangeState = (typeof CHANGE_STATES)[number];

/**
 * The effect of a change, as the mass-change guard counts it.
 *
 *   creation  something that the workspace is not known to have yet.
 *   removal   a link that is taken away, or an open record that is to be closed or declined.
 *   repair    a record that somebody else changed, as a sweep found, and that must match its provider again.
 */
export type Effect = (typeof EFFECTS)[number];
export const EFFECTS = ['removal', 'creation', 'repair'] as const;

/** What a link or a record brings about; null for a plain edit. Absent fields: not wanted, or not known to be there. */
export function effectOf(
  kind: EntityKind,
  desired: Readonly<Record<string, unknown>> | undefined,
  known: Readonly<Record<string, unknown>> | undefined,
): Effect | null {
  if (kind === 'read') return null;
  if (known === undefined) return desired === undefined ? null : 'creation';
  if (desired === undefined) return kind === 'link' ? 'removal' : null;
  // A merge is the normal end of a request: many of them after an outage are no damage.
  const closes = known['state'] === 'open' && ['closed', 'declined'].includes(String(desired['state']));
  return kind === 'pull_request' && closes ? 'removal' : null;
}

export type EntityKind = 'pull_request' | 'link' | 'task' | 'document' | 'read';

/** What the outbox asks of the workspace. */
export type Action =
  | 'read-tasks'
  | 'read-task'
  | 'read-pull-requests'
  | 'read-records'
  | 'read-links'
  | 'read-document'
  | 'record-pull-request'
  | 'add-link'
  | 'remove-link'
  | 'create-task'
  | 'attach-document';

/**
 * What became of a request: `answered`, and its change is settled; `settled`: refused, which settles it too; `again`: it is sent
 * again; `unknown`: nobody knows whether it was carried out; `held`: its change needs approval.
 */
export type RequestOutcome = 'answered' | 'settled' | 'again' | 'unknown' | 'held';

/**
 * What is done with a write whose outcome is unknown.
 *
 *   repeat  the server is idempotent for it: the same request is sent again. Recording a pull request is an upsert;
 *           adding a link is idempotent by URL, attaching a document to the same task too; removing a link again answers 404, which is done.
 *   list    creating a task is not idempotent: after `SETTLE_AFTER` one complete list read settles all such creates
 *           together, by `source`. Absent → pending. Twice → the oldest is kept and the other reported.
 */
export type Settlement = 'repeat' | 'list';

export function settlement(kind: EntityKind): Settlement {
  return kind === 'task' ? 'list' : 'repeat';
}

/** The server's longest handling time and list lag, milliseconds: earlier a list read proves nothing. */
export const SETTLE_AFTER = 60_000;

/**
 * How long a request whose answer nobody saw may still be on its way, also one of a process that died, milliseconds. Requests live
 * for 30 s.
 */
export const MAX_TIME_IN_FLIGHT = 40_000;

/** The last request of ours about an entity that was answered. Epoch milliseconds. */
export interface Written {
  readonly action: Action;
  readonly sentAt: number;
  readonly answeredAt: number;
  /** Of the answer. */
  readonly id: string;
  /** Nobody saw an answer to an earlier attempt. */
  readonly isRepeat?: boolean;
}

/** From when on it can be undone: an earlier attempt that arrived after the undoing would do it anew. */
export function undoableFrom(written: Written | undefined): number {
  return written?.isRepeat ? written.answeredAt + MAX_TIME_IN_FLIGHT : 0;
}

/** Entity names. The prefix is the kind; the rest is the natural key. */
export const entity = {
  pullRequest: (provider: string, repoId: string, identifier: string) =>
    `pull_request:${provider}/${repoId}/${identifier}`,
  link: (itemKey: string, taskId: string) => `link:${itemKey}>${taskId}`,
  task: (itemKey: string) => `task:${itemKey}`,
  readTasks: 'read:tasks',
  readTask: (taskId: string) => `read:task:${taskId}`,
  readPullRequests: 'read:pull_requests',
  /** Of one branch: the few records that one of them is looked for among. */
  readRecords: (provider: string, repoId: string, headBranch: string) =>
    `read:records:${JSON.stringify([provider, repoId, headBranch])}`,
  document: (documentId: string) => `document:${documentId}`,
  readLinks: (taskId: string) => `read:links:${taskId}`,
  readDocument: (documentId: string) => `read:document:${documentId}`,
} as const;

/** What a read of `entity.readRecords` asks for. */
export function branchOfRecordsRead(
  name: string,
): { provider: string; repoId: string; headBranch: string } | undefined {
  const prefix = 'read:records:';
  if (!name.startsWith(prefix)) return undefined;
  const [provider, repoId, headBranch] = JSON.parse(name.slice(prefix.length)) as [string, string, string];
  return { provider, repoId, headBranch };
}

/** The id of the task whose links `entity.readLinks` reads; undefined for every other name. */
export function taskOfLinkRead(name: string): string | undefined {
  const prefix = entity.readLinks('');
  return name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
}

/** Why a change is held: the guard held it as one of many, or the workspace refused it. A person releases each group as a whole. */
export const HELD_CLASSES = ['removals', 'creations', 'repairs', 'refused'] as const;
export type HeldClass = (typeof HELD_CLASSES)[number];
