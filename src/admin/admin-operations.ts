// Design: src/decisions/pages-and-admin.md

import { z } from 'zod';
import { asSyncError } from '../model/errors.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { endAudit } from '../store/access/audit-rows.ts';
import { audited, auditLog, auditSchema, NOBODY, noteAct } from './access/audit.ts';
import { refusedOperations } from './access/refused.ts';
import { planOperations } from './changes/plan.ts';
import { POSTPONABLE, type PostponedAction, type PostponedRequest } from './changes/postponed.ts';
import { changeOperations, heldOperations } from './changes/waiting-changes.ts';
import { backfillOperations, connectionOperations } from './connections/connections.ts';
import { deliveryOperations, quarantineOperations } from './deliveries/deliveries.ts';
import { timelineOperations } from './deliveries/timelines.ts';
import { itemOperations } from './items/item-timeline.ts';
import {
  type Actor,
  ANSWER_MS,
  emptySchema,
  type OpenWorkspace,
  type Operation,
  operation,
  textSchema,
} from './open-workspace.ts';
import { quotaOperations } from './quota/quota.ts';
import { linkOperations } from './tasks/links.ts';
import { labOperations } from './workspace/lab.ts';
import { sweepOperations } from './workspace/sweep.ts';

const OF_TOPICS = {
  ...heldOperations,
  ...changeOperations,
  ...quarantineOperations,
  ...planOperations,
  ...labOperations,
  ...backfillOperations,
  ...connectionOperations,
  ...deliveryOperations,
  ...timelineOperations,
  ...itemOperations,
  ...linkOperations,
  ...sweepOperations,
  ...quotaOperations,
  ...refusedOperations,
  audit: operation({
    body: auditSchema,
    run: ({ store, name }, wanted, clock) =>
      auditLog(store.query.whole, { ...wanted, workspaces: [name] }, clock.now()),
  }),
  'gateway-tokens': operation({
    route: ['GET', 'gateway-tokens'],
    body: emptySchema,
    run: ({ upstream }) => upstream.tokens.list(),
  }),
  'gateway-token-create': operation({
    route: ['POST', 'gateway-tokens'],
    body: z.strictObject({ description: textSchema }),
    run: ({ upstream }, { description }) => upstream.tokens.create(description),
    audit: { subject: ({ description }) => description, count: () => 1, details: ({ id }) => id },
  }),
  'gateway-token-revoke': operation({
    route: ['POST', 'gateway-tokens/revoke'],
    body: z.strictObject({ id: textSchema }),
    run: async ({ upstream }, { id }) => ({ revoked: await upstream.tokens.revoke(id) }),
    audit: { subject: ({ id }) => id, count: ({ revoked }) => Number(revoked) },
  }),
};

const requestSchemas = POSTPONABLE.map((question) =>
  z.strictObject({ question: z.literal(question), asked: OF_TOPICS[question].body }),
);

/**
 * The requests about one workspace that commands and pages may send. A running daemon answers them; without one, the command
 * opens the data folder and answers them itself.
 */
export const OPERATIONS = {
  ...OF_TOPICS,
  postpone: operation({
    body: z.discriminatedUnion('question', requestSchemas as never) as unknown as z.ZodType<PostponedRequest>,
    run: postpone,
  }),
  postponed: operation({ body: emptySchema, run: async ({ postponed }) => ({ actions: postponed.list() }) }),
  undo: operation({ body: z.strictObject({ id: textSchema }), run: undo }),
};

type AdminOperations = typeof OPERATIONS;
export type AdminOperation = keyof AdminOperations;
export type Asked<Name extends AdminOperation> = z.infer<AdminOperations[Name]['body']>;
export type Answered<Name extends AdminOperation> = Awaited<ReturnType<AdminOperations[Name]['run']>>;

export function isAdminOperation(name: string): name is AdminOperation {
  return Object.hasOwn(OPERATIONS, name);
}

/** Returns the longest time that an answer may take, milliseconds. */
export function longestAnswer(name: AdminOperation): number {
  return OPERATIONS[name].timeoutMs ?? ANSWER_MS;
}

/**
 * Runs an operation, and records it in the audit if it changes something.
 *
 * @param row the number of its row in the audit, if it was postponed
 */
export async function runAdminOperation<Name extends AdminOperation>(
  name: Name,
  workspace: OpenWorkspace,
  body: Asked<Name>,
  clock: Clock,
  actor: Actor = NOBODY,
  row?: number,
): Promise<Answered<Name>> {
  const { audit, ...wanted } = OPERATIONS[name] as unknown as Operation<unknown, Answered<Name>>;
  if (!audit || audit.isPreview?.(body)) return wanted.run(workspace, body, clock, actor);
  const act = { actor, action: name, workspace: workspace.name, subject: audit.subject?.(body) ?? null };
  return audited(
    { query: workspace.store.query.whole, clock, row },
    act,
    () => wanted.run(workspace, body, clock, actor),
    (answer) => ({ count: audit.count?.(answer) ?? null, ...(audit.details && { details: audit.details(answer) }) }),
  );
}

/** Runs an operation ten seconds from now. Throws now what the operation itself would throw. */
async function postpone(
  workspace: OpenWorkspace,
  { question, asked }: PostponedRequest,
  clock: Clock,
  actor: Actor,
): Promise<PostponedAction> {
  const { postponed, store, name } = workspace;
  const { preview, audit } = OF_TOPICS[question] as Operation<unknown, unknown>;
  const count = (await preview?.(workspace, asked)) ?? 0;
  const books = { query: store.query.whole, clock };
  const act = { actor, action: question, workspace: name, subject: audit?.subject?.(asked) ?? null };
  const auditRow = await noteAct(books, act, 'asked', count);
  try {
    return postponed.add({ question, asked, count, actor, auditRow }, () =>
      runAdminOperation(question, workspace, asked as never, clock, actor, auditRow),
    );
  } catch (error) {
    const { code, message } = asSyncError(error);
    await endAudit(books.query, auditRow, { outcome: 'failed', count: null, details: `${code}: ${message}` });
    throw error;
  }
}

async function undo(
  { postponed, store }: OpenWorkspace,
  { id }: { readonly id: string },
  _clock: Clock,
  actor: Actor,
): Promise<{ readonly undone: boolean }> {
  const action = postponed.take(id);
  if (!action) return { undone: false };
  const details = actor === action.actor ? null : `by ${actor}`;
  await endAudit(store.query.whole, action.auditRow, { outcome: 'undone', count: action.count, details });
  return { undone: true };
}
