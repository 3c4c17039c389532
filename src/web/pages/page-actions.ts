import type { Actor } from '../../admin/audit.ts';
import type { OpenWorkspace } from '../../admin/open-workspace.ts';
import { HELD_CLASSES } from '../../model/change.ts';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { counted } from '../../platform/lib/quantities.ts';
import type { Markup } from '../html.ts';
import { numberOf } from './choices.ts';
import { wantedOf } from './delivery-filter.ts';
import { ask, pathOf, type Visit } from './page-content.ts';
import { note } from './problem-content.ts';

interface Given {
  readonly partition: OpenWorkspace;
  readonly clock: Clock;
  /** The author for the audit. */
  readonly actor: Actor;
  readonly form: URLSearchParams;
}

/** Runs the action of a button. @returns the address of the page that reports the result */
export type Action = (given: Given) => Promise<string>;

export const ACTIONS = {
  async release(given) {
    const classes = HELD_CLASSES.filter((each) => given.form.getAll('class').includes(each));
    await ask(given, 'postpone', { question: 'release', asked: { classes } });
    return pathOf(given.partition.name, 'problems');
  },
  async retry(given) {
    await ask(given, 'postpone', { question: 'retry', asked: {} });
    return pathOf(given.partition.name, 'problems');
  },
  async dismiss(given) {
    await ask(given, 'postpone', { question: 'dismiss', asked: {} });
    return pathOf(given.partition.name, 'problems');
  },
  async undo(given) {
    const { undone } = await ask(given, 'undo', { id: named(given, 'id') });
    return done(given, 'problems', undone ? 'undone' : 'late');
  },
  async 'change-retry'(given) {
    const { retried } = await ask(given, 'changes-retry', { targets: [named(given, 'entity')] });
    return done(given, 'changes', 'sent', retried.length);
  },
  async 'change-drop'(given) {
    const { dropped } = await ask(given, 'changes-drop', { targets: [named(given, 'entity')] });
    return done(given, 'changes', 'dropped', dropped.length);
  },
  async replay(given) {
    // An invalid number must not select all deliveries.
    if (!given.form.has('id')) {
      const { replayed } = await ask(given, 'replay', { ...wantedOf(given.form), preview: false });
      return done(given, 'deliveries', 'replayed', replayed);
    }
    const id = numberOf(given.form, 'id');
    if (id === null) throw new SyncError('usage', 'the form names no delivery');
    const { replayed } = await ask(given, 'replay', { ids: [id], preview: false });
    return pathOf(given.partition.name, 'delivery', { id, done: 'replayed', count: replayed });
  },
  async 'backfill-start'(given) {
    const since = given.form.get('since') ?? '';
    const wish = { connection: named(given, 'connection'), since: since === '' ? null : `${since}T00:00:00Z` };
    const { outcome } = await ask(given, 'backfill', wish);
    return done(given, 'backfills', outcome);
  },
  async 'backfill-pause'(given) {
    const { paused } = await ask(given, 'backfill-pause', { connection: named(given, 'connection') });
    return done(given, 'backfills', paused ? 'paused' : 'idle');
  },
  async 'backfill-resume'(given) {
    const { resumed } = await ask(given, 'backfill-resume', { connection: named(given, 'connection') });
    return done(given, 'backfills', resumed ? 'resumed' : 'idle');
  },
  async 'backfill-stop'(given) {
    const { stopped } = await ask(given, 'backfill-stop', { connection: named(given, 'connection') });
    return done(given, 'backfills', stopped ? 'stopped' : 'idle');
  },
} satisfies Readonly<Record<string, Action>>;

/** A field of the form; a form of ours has it. */
function named({ form }: Given, field: string): string {
  return form.get(field) ?? '';
}

export type ActionName = keyof typeof ACTIONS;

/** The address of a form. */
export function actionPath(workspace: string, action: ActionName): string {
  return pathOf(workspace, `actions/${action}`);
}

type Outcome = keyof typeof OUTCOMES;

function done({ partition }: Given, page: string, outcome: Outcome, count?: number): string {
  return pathOf(partition.name, page, { done: outcome, count });
}

/** An address can only select one of these texts, so that a link cannot put other words onto a page. */
const OUTCOMES = {
  undone: () => 'Undone: everything is as it was.',
  late: () => 'Nothing was undone: it was done already, or undone before. The audit says which.',
  replayed: (count: number) => `${count === 1 ? '1 delivery is' : `${count} deliveries are`} judged again.`,
  sent: (count: number) => `${counted(count, 'change')} tried again with the next slot.`,
  dropped: (count: number) => `${counted(count, 'change')} dropped. A later change of the item brings it back.`,
  started: () => 'The backfill has started.',
  running: () => 'Nothing was changed: a backfill of this connection runs already.',
  paused: () => 'The backfill is paused. What it has read so far is still sent.',
  resumed: () => 'The backfill goes on.',
  idle: () => 'Nothing was changed: no such backfill runs any more.',
  stopped: () => 'The backfill has ended. What it has read so far is still sent.',
} satisfies Readonly<Record<string, (count: number) => string>>;

/** The result of the button that led to this page. */
export function doneNote({ query }: Visit): Markup | null {
  const outcome = query.get('done') ?? '';
  if (!Object.hasOwn(OUTCOMES, outcome)) return null;
  const count = Number(query.get('count') ?? 0);
  const words = OUTCOMES[outcome as Outcome](Number.isSafeInteger(count) && count >= 0 ? count : 0);
  return note('good', words);
}
