import type { Cause, ProcessStatus, WorkspaceStatus } from '../../admin/status/status.ts';
import type { SyncError } from '../../model/errors.ts';
import { asTyped } from '../../platform/lib/own-program.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { helpOf } from '../help.ts';
import { html, type Markup, sign, type Tone, VERDICT_TONES, when } from '../html.ts';
import { type PageContent, pathOf } from './page-content.ts';

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

/** The verdict in one sentence, and its causes with links to the details. */
export function verdictBanner({ name, verdict, summary, causes }: WorkspaceStatus, now: number): Markup {
  const tone = VERDICT_TONES[verdict];
  const rows = causes.map(
    (
      cause,
    ) => html`<li><div><p><span class="${VERDICT_TONES[cause.verdict]}">${sign(VERDICT_TONES[cause.verdict])}</span> <strong class="text">${cause.message}</strong> <span class="hint">since ${when(cause.since, now)}</span></p>
<p class="hint">${asTyped(cause.stops)}</p></div>
<a id="cause-link-${cause.code}" href="${pathOf(name, 'problems')}#${cause.code}">Look at it<span class="unseen">: ${cause.message}</span></a></li>`,
  );
  return html`<section class="card verdict ${tone}" aria-label="Verdict">
<p class="headline">${sign(tone)} ${headlineOf(verdict, causes.length)}</p>
<p>${withoutCauses(summary, causes)}.</p>
${rows.length === 0 ? null : html`<ul class="causes">${rows}</ul>`}</section>`;
}

function headlineOf(verdict: WorkspaceStatus['verdict'], causes: number): string {
  if (verdict === 'ok') return 'Everything works';
  return verdict === 'blocked' ? 'Nothing gets through' : `Works, with ${counted(causes, 'problem')}`;
}

function withoutCauses(summary: string, causes: WorkspaceStatus['causes']): string {
  const isCause = (part: string) => causes.some(({ code, message }) => part === `${code}: ${message}`);
  return summary
    .split('; ')
    .filter((part) => !isCause(part))
    .join('; ');
}

/** The faults of the whole process. */
export function processProblems({ components, configFault, shared }: ProcessStatus): Markup | null {
  const failing = Object.entries(components).filter(([, reason]) => reason !== 'ok');
  const notReady =
    failing.length === 0
      ? null
      : note(
          'bad',
          'Not ready: webhooks cannot be stored',
          html`${failing.map(([component, reason]) => html`<p><code>${component}</code>: <code>${reason}</code></p>`)}`,
        );
  const fault =
    configFault && errorBox('The configuration could not be reloaded: the last good one stays in use', configFault);
  const causes = shared?.causes ?? [];
  return notReady || fault || causes.length > 0 ? html`${notReady}${fault}${causeBoxes(causes)}` : null;
}

/** The faults among the processes that share the workspaces. */
export function causeBoxes(causes: readonly Cause[]): readonly Markup[] {
  return causes.map(({ verdict, message, stops, hint }) =>
    note(VERDICT_TONES[verdict], message, html`<p>${asTyped(stops)}</p><p>${asTyped(hint)}</p>`),
  );
}

export function failureWords(
  failure: { readonly code: string; readonly message: string; readonly hint: string | null } | null,
): Markup | null {
  if (!failure) return null;
  return html`<span class="bad"><a href="${helpOf(failure.code)}"><code>${failure.code}</code></a></span> <span class="text">${failure.message}</span>${
    failure.hint ? html`<div class="hint">${asTyped(failure.hint)}</div>` : null
  }`;
}
