import type { Review } from '../../../src/model/item.ts';
import type { WorkflowInput } from '../../../src/sync/reconcile/workflow/workflow-rules.ts';
import { type Board, time } from './board.ts';

type PullFields = NonNullable<Parameters<Board['pull']>[2]>;

/** Something that a provider or a person does. `clock.now`: seconds after the start of the board. */
export type Step = (board: Board, clock: { now: number }) => Promise<void>;

export async function play(board: Board, steps: readonly Step[]): Promise<void> {
  const clock = { now: 0 };
  for (const step of steps) {
    clock.now += 10;
    await step(board, clock);
  }
}

/** The updates that are due are sent, also those that wait for the end of the work. Then two hundred seconds pass, so that an edit by a person is no contest. */
export const later: Step = async (board, clock) => {
  await board.send((clock.now += 100));
  clock.now += 200;
};
export const sent: Step = (board, { now }) => board.send(now);

export const changed =
  (number: number, fields: PullFields): Step =>
  (board, { now }) =>
    board.pull(number, now, fields);
export const opened = (number: number, title: string, fields: PullFields = {}): Step =>
  changed(number, { title, ...fields });
export const merged = (number = 1, fields: PullFields = {}): Step => changed(number, { state: 'merged', ...fields });
export const closed = (number = 1, fields: PullFields = {}): Step => changed(number, { state: 'closed', ...fields });
export const revert = (number: number, of: number, fields: PullFields = {}): Step =>
  opened(number, 'Revert "Fixes BUG-1"', { reverts: `${of}`, ...fields });
export const polled =
  (number: number, fields: PullFields): Step =>
  (board, { now }) =>
    board.pull(number, now, fields, 'poll');
export const drafted =
  (number: number, draft: boolean): Step =>
  (board, { now }) =>
    board.pull(number, now, { draft, phaseChangedAt: time(now) });
export const reviewed =
  (
    number: number,
    state: Review['state'],
    { id = 'r', ...more }: Partial<Review> & { readonly id?: string } = {},
  ): Step =>
  (board, { now }) =>
    board.pull(number, now, { reviews: { [id]: { reviewer: 'ben', state, at: time(now), ...more } } });
export const decided =
  (number: number, state: 'approved' | 'changes' | 'none'): Step =>
  (board, { now }) =>
    board.pull(number, now, { reviewDecision: { state, at: time(now) }, phaseChangedAt: time(now) });
export const issue =
  (fields: Parameters<Board['issue']>[2], number = 1): Step =>
  (board, { now }) =>
    board.issue(number, now, fields);

export const person =
  (status: string, key = 'BUG-1'): Step =>
  (board, { now }) =>
    board.person(key, now, status);
export const labelled =
  (...labels: readonly string[]): Step =>
  (board, { now }) =>
    board.label('BUG-1', now, labels);
export const configured =
  (workflow: Partial<WorkflowInput> | undefined): Step =>
  (board, { now }) =>
    board.configure(now, workflow);
export const restored: Step = (board, { now }) => board.restore(now);
export const released: Step = (board) => board.release('BUG-1');
