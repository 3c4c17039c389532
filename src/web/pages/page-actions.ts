import type { AdminOperation, Answered, Asked } from '../../admin/admin-operations.ts';
import type { PostponedRequest } from '../../admin/changes/postponed.ts';
import type { Actor, OpenWorkspace } from '../../admin/open-workspace.ts';
import { HELD_CLASSES } from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { wantedOf } from '../deliveries/delivery-table.ts';
import { html, type Markup, numberOf } from '../html.ts';
import { mayAct, type PageContext, pathOf, request, type WorkspacePageContext } from './page-content.ts';
import { tokenField } from './page-frame.ts';
import { note } from './problem-content.ts';

interface Given {
  readonly partition: OpenWorkspace;
  readonly clock: Clock;
  readonly actor: Actor;
  readonly form: URLSearchParams;
}

/** Runs the action of a button. @returns the address of the page that reports the result */
export type Action = (given: Given) => Promise<string>;

type Done = readonly [outcome: Outcome, count?: number];

/** An action that is one admin operation and leads to a page with its outcome. */
function action<Name extends AdminOperation>(
  name: Name,
  bodyOf: (form: URLSearchParams) => Asked<Name>,
  page: string,
  outcomeOf: (answer: Answered<Name>) => Done,
): Action {
  return async (given) => {
    const [outcome, count] = outcomeOf(await request(given, name, bodyOf(given.form)));
    return pathOf(given.partition.name, page, { done: outcome, count });
  };
}

/** An action that can be undone for some seconds. */
function postponed(
  question: PostponedRequest['question'],
  bodyOf: (form: URLSearchParams) => object = () => ({}),
): Action {
  return async (given) => {
    await request(given, 'postpone', { question, asked: bodyOf(given.form) });
    return pathOf(given.partition.name, 'problems');
  };
}

const connectionOf = (form: URLSearchParams) => ({ connection: form.get('connection') ?? '' });
const changeOf = (form: URLSearchParams) => ({ targets: [form.get('entity') ?? ''] });

export const ACTIONS = {
  release: postponed('release', (form) => ({
    classes: HELD_CLASSES.filter((each) => form.getAll('class').includes(each)),
  })),
  retry: postponed('retry'),
  dismiss: postponed('dismiss'),
  undo: action(
    'undo',
    (form) => ({ id: form.get('id') ?? '' }),
    'problems',
    ({ undone }) => [undone ? 'undone' : 'late'],
  ),
  'change-retry': action('changes-retry', changeOf, 'changes', ({ retried }) => ['sent', retried.length]),
  'change-drop': action('changes-drop', changeOf, 'changes', ({ dropped }) => ['dropped', dropped.length]),
  async replay(given) {
    const { form, partition } = given;
    const id = form.has('id') ? numberOf(form, 'id') : undefined;
    // An invalid number must not select all deliveries.
    if (id === null) throw new SyncError('usage', 'the form names no delivery');
    const wanted = id === undefined ? wantedOf(form) : { ids: [id] };
    const { replayed } = await request(given, 'replay', { ...wanted, preview: false });
    return pathOf(partition.name, id === undefined ? 'deliveries' : 'delivery', {
      id,
      done: 'replayed',
      count: replayed,
    });
  },
  'backfill-start': action('backfill', startOf, 'backfills', ({ outcome }) => [outcome]),
  'backfill-pause': steer('backfill-pause', 'paused'),
  'backfill-resume': steer('backfill-resume', 'resumed'),
  'backfill-stop': steer('backfill-stop', 'stopped'),
} satisfies Readonly<Record<string, Action>>;

/** @param outcome if there was a backfill to steer */
function steer(name: 'backfill-pause' | 'backfill-resume' | 'backfill-stop', outcome: Outcome): Action {
  return action(name, connectionOf, 'backfills', (answer) => [Object.values(answer).includes(true) ? outcome : 'idle']);
}

function startOf(form: URLSearchParams): Asked<'backfill'> {
  const since = form.get('since') ?? '';
  return { ...connectionOf(form), since: since === '' ? null : `${since}T00:00:00Z` };
}

export type ActionName = keyof typeof ACTIONS;

type Outcome = keyof typeof OUTCOMES;

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
export function doneNote({ query }: PageContext): Markup | null {
  const outcome = query.get('done') ?? '';
  if (!Object.hasOwn(OUTCOMES, outcome)) return null;
  const count = Number(query.get('count') ?? 0);
  const words = OUTCOMES[outcome as Outcome](Number.isSafeInteger(count) && count >= 0 ? count : 0);
  return note('good', words);
}

interface Button {
  readonly action: ActionName;
  readonly words: string;
  readonly fields?: Readonly<Record<string, string | number>>;
  /** The script asks for a confirmation with this text. */
  readonly question?: string;
  readonly look?: 'main' | 'danger';
  /** Unique on the page: the focus stays on the button when its part is replaced. */
  readonly id: string;
}

/** A button that changes something; null if the caller may not press it. */
export function actionForm(
  context: WorkspacePageContext,
  { action, words, fields = {}, question, look, id }: Button,
): Markup | null {
  const { session } = context.caller;
  if (!mayAct(context) || !session) return null;
  const asked = question === undefined ? null : html` data-confirm="${question}"`;
  return html`<form method="post" action="${pathOf(context.partition.name, `actions/${action}`)}"${asked}>${tokenField(session.pageToken)}${Object.entries(
    fields,
  ).map(
    ([name, value]) => html`<input name="${name}" type="hidden" value="${value}">`,
  )}<button id="${id}" class="${look ?? ''}">${words}</button></form>`;
}
