import { hash } from 'node:crypto';
import { bytes, duration } from '../../platform/lib/quantities.ts';
import type { Caller } from '../access/callers.ts';
import { html, type Markup, type Tone, when } from '../html.ts';
import { documentOf } from '../html-document.ts';
import { type PageContent, type Part, pathOf } from './page-content.ts';

export interface NavigationEntry {
  readonly path: string;
  readonly name: string;
  /** The number of its things that need attention. */
  readonly badge?: { readonly count: number; readonly tone: Tone } | null;
}

export interface Frame {
  readonly caller: Caller;
  readonly now: number;
  readonly process: {
    readonly version: string;
    readonly startedAt: number;
    readonly databaseBytes: number;
    readonly shared?: unknown;
  };
  /** The address of its events; null: the page is static. */
  readonly live: string | null;
  readonly workspace?: {
    readonly name: string;
    readonly pages: readonly NavigationEntry[];
    /** Path of the page that is shown, relative to the workspace. */
    readonly current: string;
  };
}

export function framedPage(content: PageContent, frame: Frame): Markup {
  const { workspace } = frame;
  const title = workspace ? `${content.title} – ${workspace.name} – worksync` : `${content.title} – worksync`;
  return documentOf(
    title,
    html`<a class="skip" href="#main">Skip to content</a>
${topOf(frame)}
<div class="shell">
${workspace ? elementOf(navigationPart(workspace)) : null}
<main id="main" tabindex="-1">
<h1>${content.title}</h1>
${content.parts.map(elementOf)}
</main>
${footOf(frame)}
</div>`,
    frame.now,
  );
}

/** The parts that events may replace, the navigation among them. */
export function liveParts(content: PageContent, { workspace }: Pick<Frame, 'workspace'>): readonly Part[] {
  const own = content.parts.filter(({ isForm }) => !isForm);
  return workspace ? [navigationPart(workspace), ...own] : own;
}

function topOf({ caller, workspace, live, process }: Frame): Markup {
  return html`<header class="top"><a class="brand" href="/">worksync</a>
${workspace ? html`<a class="where" href="${pathOf(workspace.name, '')}">${workspace.name}</a>` : null}
<div class="right">${live === null ? null : html`<span class="pulse" role="status" data-live="${live}" hidden>Live</span>`}
${process.shared !== undefined && caller.workspaces === null ? html`<a href="/replicas">Replicas</a>` : null}
<a href="/help/">Help</a>${caller.session ? logOut(caller.session.pageToken) : null}</div></header>`;
}

function logOut(pageToken: string): Markup {
  return html`<form method="post" action="/logout">${tokenField(pageToken)}<button type="submit">Log out</button></form>`;
}

/** The field that every form with a change contains: see `access-control.ts`. */
export function tokenField(pageToken: string): Markup {
  return html`<input name="page" type="hidden" value="${pageToken}">`;
}

function navigationPart({ name, pages, current }: NonNullable<Frame['workspace']>): Part {
  const entries = pages.map(({ path, name: words, badge }) => {
    const isCurrent = path === current ? html` aria-current="page"` : null;
    const shown =
      badge && badge.count > 0
        ? html` <span class="badge ${badge.tone}">${badge.count > 999 ? '999+' : badge.count}</span>`
        : null;
    return html`<li><a id="nav-${path === '' ? 'overview' : path}" href="${pathOf(name, path)}"${isCurrent}>${words}${shown}</a></li>\n`;
  });
  return { id: 'navigation', body: html`<nav class="nav" aria-label="Workspace ${name}"><ul>${entries}</ul></nav>` };
}

function footOf({ now, process }: Frame): Markup {
  return html`<footer class="foot"><span>worksync ${process.version}</span>
<span>runs for ${duration(now - process.startedAt)}</span><span>database ${bytes(process.databaseBytes)}</span>
<span>page made ${when(now, now)}</span></footer>`;
}

function elementOf(part: Part): Markup {
  return html`<div id="${part.id}" data-digest="${digestOf(part)}" class="stack">${part.body}</div>\n`;
}

/** The words of times change constantly, and the browser updates them itself. */
const TIMES = /(<time [^<>]{0,300}>)[^<]{0,100}/g;

/** Returns equal digests if only the words of times have changed. */
export function digestOf({ body }: Part): string {
  return hash('sha256', body.text.replace(TIMES, '$1')).slice(0, 16);
}
