import { type Board, time } from './board.ts';

// Steps of providers and people, for tables of tests. Times are seconds after the start of the board.

/** The provider or a person does something, or time passes. */
export type Step = (board: Board) => Promise<void>;

export const opened =
  (number: number, at: number, title: string, fields: Parameters<Board['pull']>[2] = {}): Step =>
  (board) =>
    board.pull(number, at, { title, ...fields });
export const merged =
  (number: number, at: number, fields: Parameters<Board['pull']>[2] = {}): Step =>
  (board) =>
    board.pull(number, at, { state: 'merged', ...fields });
export const polled =
  (number: number, at: number, fields: Parameters<Board['pull']>[2]): Step =>
  (board) =>
    board.pull(number, at, fields, 'poll');
export const closed =
  (number: number, at: number): Step =>
  (board) =>
    board.pull(number, at, { state: 'closed' });
export const changed =
  (number: number, at: number, fields: Parameters<Board['pull']>[2]): Step =>
  (board) =>
    board.pull(number, at, fields);
export const person =
  (at: number, status: string, key = 'BUG-1'): Step =>
  (board) =>
    board.person(key, at, status);
export const issue =
  (at: number, fields: Parameters<Board['issue']>[2]): Step =>
  (board) =>
    board.issue(1, at, fields);
export const sent =
  (at: number): Step =>
  (board) =>
    board.send(at);

export const review = (
  id: string,
  at: number,
  state: 'approved' | 'changes' | 'commented' | 'dismissed',
  reviewer = 'ben',
) => ({
  [id]: { reviewer, state, at: time(at) },
});
