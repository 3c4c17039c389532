import { HELD_CLASSES } from '../model/change.ts';
import type { Clock } from '../platform/lib/clock.ts';
import { heldChanges } from '../store/held-changes.ts';
import { countQuarantined } from '../store/inbox.ts';
import { type Actor, noteAct } from './audit.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import type { PostponedAction, PostponeWish } from './postponed.ts';
import { toDrop, toRetry } from './waiting-changes.ts';

/** Who asks, and when. */
interface Asking {
  readonly clock: Clock;
  readonly actor: Actor;
}

/** Throws what the action itself would throw now. @param run does it, in the end */
export async function postpone(
  workspace: OpenWorkspace,
  { question, asked }: PostponeWish,
  { clock, actor }: Asking,
  run: () => Promise<unknown>,
): Promise<PostponedAction> {
  const { postponed, store, name } = workspace;
  const count = await previewOf(workspace, { question, asked } as PostponeWish);
  const action = postponed.add({ question, asked, count, actor }, run);
  try {
    const act = { actor, action: question, workspace: name, subject: `postponed as ${action.id}` };
    await noteAct({ query: store.query.whole, clock }, act, 'asked', count);
  } catch (error) {
    postponed.take(action.id);
    throw error;
  }
  return action;
}

/** False where it was done, or undone, already. */
export async function undo(
  { postponed, store, name }: OpenWorkspace,
  { id }: { readonly id: string },
  { clock, actor }: Asking,
): Promise<{ readonly undone: boolean }> {
  const action = postponed.take(id);
  if (!action) return { undone: false };
  const act = { actor, action: action.question, workspace: name, subject: `postponed as ${id}` };
  await noteAct({ query: store.query.whole, clock }, act, 'undone', action.count);
  return { undone: true };
}

/** How many things it would change now. */
async function previewOf(workspace: OpenWorkspace, { question, asked }: PostponeWish): Promise<number> {
  const { query } = workspace.store;
  if (question === 'retry') return countQuarantined(query, asked.ids);
  if (question === 'changes-retry') return (await toRetry(query, asked)).length;
  if (question === 'changes-drop') return (await toDrop(query, asked)).length;
  const held = await heldChanges(query, 0);
  const { classes = [], entities = [] } = asked;
  const ofClasses = HELD_CLASSES.filter((each) => classes.includes(each)).map((each) => held[each].count);
  return ofClasses.reduce((sum, count) => sum + count, entities.length);
}
