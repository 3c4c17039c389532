import { html, type Markup } from '../html.ts';
import { type ActionName, actionPath } from './page-actions.ts';
import { mayAct, type WorkspaceVisit } from './page-content.ts';
import { tokenField } from './page-frame.ts';

interface Wish {
  readonly action: ActionName;
  /** On the button. */
  readonly words: string;
  readonly fields?: Readonly<Record<string, string | number>>;
  /** The script asks this first. */
  readonly question?: string;
  readonly look?: 'main' | 'danger';
  /** Unique on the page: the focus stays on the button when its part is replaced. */
  readonly id: string;
}

/** A button that changes something; nothing for those who may not. */
export function actionForm(
  visit: WorkspaceVisit,
  { action, words, fields = {}, question, look, id }: Wish,
): Markup | null {
  const { session } = visit.caller;
  if (!mayAct(visit) || !session) return null;
  const asked = question === undefined ? null : html` data-confirm="${question}"`;
  return html`<form method="post" action="${actionPath(visit.partition.name, action)}"${asked}>${tokenField(session.pageToken)}${Object.entries(
    fields,
  ).map(
    ([name, value]) => html`<input name="${name}" type="hidden" value="${value}">`,
  )}<button id="${id}" class="${look ?? ''}">${words}</button></form>`;
}
