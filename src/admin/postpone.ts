import { HELD_CLASSES } from '../model/change.ts';
import { asSyncError } from '../model/errors/sync-error.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { endAudit } from '../store/access/audit-rows.ts';
import { heldChanges } from '../store/changes/held-changes.ts';
import { countQuarantined } from '../store/deliveries/inbox.ts';
import { type Actor, noteAct } from './audit.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import type { PostponedAction, PostponeWish } from './postponed.ts';
import { toDrop, toRetry } from './waiting-changes.ts';

/** The author and the clock of a postponed action. */
interface PostponeContext {
  readonly clock: Clock;
  readonly actor: Actor;
}

/**
 * Runs an action ten seconds from now. Throws now what the action itself would throw.
 *
 * @param run runs it in the end, and updates the given row of the audit
 */
export async function postpone(
  workspace: OpenWorkspace,
  { question, asked }: PostponeWish,
  { clock, actor, subject }: PostponeContext & { readonly subject: string | null },
  run: (auditRow: number) => Promise<unknown>,
): Promise<PostponedAction> {
  const { postponed, store, name } = workspace;
  const count = await previewOf(workspace, { question, asked } as PostponeWish);
  const books = { query: store.query.whole, clock };
  const auditRow = await noteAct(books, { actor, action: question, workspace: name, subject }, 'asked', count);
  try {
    return postponed.add({ question, asked, count, actor, auditRow }, () => run(auditRow));
  } catch (error) {
    const { code, message } = asSyncError(error);
    await endAudit(books.query, auditRow, { outcome: 'failed', count: null, details: `${code}: ${message}` });
    throw error;
  }
}

/** Returns false if the action is already done or undone. */
export async function undo(
  { postponed, store }: OpenWorkspace,
  { id }: { readonly id: string },
  { actor }: PostponeContext,
): Promise<{ readonly undone: boolean }> {
  const action = postponed.take(id);
  if (!action) return { undone: false };
  const details = actor === action.actor ? null : `by ${actor}`;
  await endAudit(store.query.whole, action.auditRow, { outcome: 'undone', count: action.count, details });
  return { undone: true };
}

/** Returns the number of things that it would change now. */
async function previewOf(workspace: OpenWorkspace, { question, asked }: PostponeWish): Promise<number> {
  const { query } = workspace.store;
  if (question === 'retry' || question === 'dismiss') return countQuarantined(query, asked.ids);
  if (question === 'changes-retry') return (await toRetry(query, asked, workspace.rules)).length;
  if (question === 'changes-drop') return (await toDrop(query, asked, workspace.rules)).length;
  const held = await heldChanges(query, 0);
  const { classes = [], entities = [] } = asked;
  const ofClasses = HELD_CLASSES.filter((each) => classes.includes(each)).map((each) => held[each].count);
  return ofClasses.reduce((sum, count) => sum + count, entities.length);
}
