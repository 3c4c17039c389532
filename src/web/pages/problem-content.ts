import type { SyncError } from '../../model/errors.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import { helpOf } from '../help.ts';
import { html, type Markup } from '../html.ts';
import { sign, type Tone } from './fragments.ts';
import type { PageContent } from './page-content.ts';

interface ShownError {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

export function shownErrorOf({ code, message, hint }: SyncError): ShownError {
  return { code, message, hint };
}

export function note(tone: Tone, title: string, body: Markup | null = null): Markup {
  return html`<div class="card note ${tone}" role="status"><p><span class="${tone}">${sign(tone)}</span> <strong>${title}</strong></p>${body}</div>`;
}

export function errorBox(title: string, { code, message, hint }: ShownError): Markup {
  return note(
    'bad',
    title,
    html`<p class="text">${asTyped(message)}</p><p>${asTyped(hint)}</p><p class="hint"><a href="${helpOf(code)}"><code>${code}</code></a></p>`,
  );
}

/** Replaces a page that cannot be built. */
export function problemContent(error: ShownError): PageContent {
  return { title: 'This did not work', parts: [{ id: 'problem', body: errorBox('This did not work', error) }] };
}

/** Replaces the pages of a workspace that is not open, whose state is unknown. */
export function brokenContent(reason: ShownError): PageContent {
  return { title: 'Blocked', parts: [{ id: 'problem', body: errorBox('Nothing is taken or sent', reason) }] };
}

export const NO_WORKSPACE: PageContent = {
  title: 'Not found',
  parts: [
    {
      id: 'problem',
      body: html`<p class="card">There is no workspace of this name. <a href="/">All workspaces</a></p>`,
    },
  ],
};
