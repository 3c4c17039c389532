import { z } from 'zod';
import { asSyncError, SyncError, withoutSecrets } from '../../model/errors.ts';
import { cut } from '../../model/text-limits.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import {
  type AuditOutcome,
  type AuditQuery,
  type AuditRow,
  addAudit,
  endAudit,
  listAudit,
} from '../../store/access/audit-rows.ts';
import type { Sql } from '../../store/workspace-scope.ts';
import type { DirectContext } from '../../sync/outbox/sender.ts';
import type { ApiRequest, ApiResponse } from '../../workspace-api/typed-client.ts';
import type { Actor, OpenWorkspace } from '../open-workspace.ts';

export const NOBODY: Actor = 'worksync';

export interface Act {
  readonly actor: Actor;
  /** The name of an admin operation, or of another action. */
  readonly action: string;
  /** Name of the workspace; null: concerns none, or all. */
  readonly workspace: string | null;
  readonly subject: string | null;
}

interface ActResult {
  readonly count: number | null;
  readonly outcome?: AuditOutcome;
  readonly details?: string;
}

interface Books {
  readonly query: Sql;
  readonly clock: Pick<Clock, 'now'>;
  /** The row of the action, where it was added when the action was requested. */
  readonly row?: number | undefined;
}

/** Milliseconds after which a requested action without an end counts as not done. It is done or undone within ten seconds. */
const REQUESTED_AT_MOST = 60_000;

const LONGEST = { actor: 100, action: 60, subject: 300, details: 300 };

/**
 * Runs an action, and records its author, subject and result. It records the request before the action, because the process can
 * end in between. Throws the errors of the action.
 */
export async function audited<Result>(
  books: Books,
  act: Act,
  work: () => Promise<Result>,
  resultOf: (result: Result) => ActResult,
): Promise<Result> {
  const id = books.row ?? (await noteAct(books, act, 'begun'));
  try {
    const result = await work();
    const { count, outcome = 'done', details } = resultOf(result);
    await endAudit(books.query, id, { outcome, count, details: textOf(details ?? null, LONGEST.details) });
    return result;
  } catch (thrown) {
    const { code, message } = asSyncError(thrown);
    const details = textOf(`${code}: ${message}`, LONGEST.details);
    await endAudit(books.query, id, { outcome: 'failed', count: null, details });
    throw thrown;
  }
}

/** Records an action that has no end of its own. @returns the number of its row */
export function noteAct({ query, clock }: Books, act: Act, outcome: AuditOutcome, count: number | null = null) {
  return addAudit(query, {
    at: clock.now(),
    workspace: act.workspace,
    actor: textOf(act.actor, LONGEST.actor) ?? NOBODY,
    action: textOf(act.action, LONGEST.action) ?? '',
    subject: textOf(act.subject, LONGEST.subject),
    ...{ count, outcome, details: null },
  });
}

/** Removes secrets before it cuts the text, because half a secret is not recognized. */
function textOf(text: string | null, longest: number): string | null {
  return text === null ? null : cut(withoutSecrets(text), longest);
}

/** Sends a request of a command to the workspace, and records it in the audit if it may change something. */
export function sendAudited(
  { send, store, name }: Pick<OpenWorkspace, 'send' | 'store' | 'name'>,
  request: ApiRequest,
  context: DirectContext,
  { actor, clock }: { readonly actor: Actor; readonly clock: Pick<Clock, 'now'> },
): Promise<ApiResponse> {
  if (request.method === 'GET') return send(request, context);
  const act = { actor, action: request.route, workspace: name, subject: `${request.method} ${request.path}` };
  return audited({ query: store.query.whole, clock }, act, () => send(request, context), describeAnswer);
}

function describeAnswer({ status }: ApiResponse): ActResult {
  return status < 400 ? { count: 1 } : { count: null, outcome: 'failed', details: `the workspace answered ${status}` };
}

export type AuditEntry = AuditRow;

export const auditSchema = z.strictObject({
  since: z.int().min(0).nullable(),
  before: z.int().positive().nullable(),
  limit: z.int().min(1).max(1_000),
});

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  /** `before` of the next page; null: this was the last. */
  readonly next: number | null;
}

/** @param now epoch milliseconds; an action that was requested long before was not done, because its process ended */
export async function auditLog(query: Sql, page: AuditQuery, now: number): Promise<AuditPage> {
  if (page.limit < 1) throw new SyncError('usage', 'limit: expected at least 1');
  const rows = await listAudit(query, { ...page, limit: page.limit + 1 });
  const entries = rows.slice(0, page.limit).map((row) => withEnd(row, now));
  return { entries, next: rows.length > entries.length ? (entries.at(-1)?.id ?? null) : null };
}

function withEnd(row: AuditRow, now: number): AuditEntry {
  if (row.outcome !== 'asked' || now - row.at < REQUESTED_AT_MOST) return row;
  return { ...row, outcome: 'undone', details: 'worksync ended before it was done' };
}
