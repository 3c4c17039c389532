import type { ListedWorkspace } from '../../admin/status/status.ts';
import { canAccess } from '../../model/caller.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import { html, type Markup } from '../html.ts';
import { dataTable, numberOf, pager, verdictChip } from '../pages/fragments.ts';
import { linkTo, type PageContent, type PageContext } from '../pages/page-content.ts';
import { processProblems } from './verdict-banner.ts';

const SHOWN = 50;
/** Milliseconds after which the list is read again. */
const FRESH = 3_000;
/** Milliseconds for which the old list is shown while it is read again. */
const SHOWABLE = 15_000;

/**
 * Lists all workspaces that the caller may see, worst first, with a search.
 *
 * @param list reads all workspaces; two thousand of them take a moment
 */
export function createWorkspaceList(
  list: () => Promise<readonly ListedWorkspace[]>,
): (context: PageContext) => Promise<PageContent> {
  let last: { readonly at: number; readonly all: readonly ListedWorkspace[] } | undefined;
  let making: Promise<readonly ListedWorkspace[]> | undefined;

  async function make({ clock }: PageContext): Promise<readonly ListedWorkspace[]> {
    try {
      const read = await list();
      last = { at: clock.monotonic(), all: read };
      return read;
    } finally {
      making = undefined;
    }
  }

  /** Reads one list at a time. Frequent requests do not wait for it. */
  async function all(context: PageContext): Promise<readonly ListedWorkspace[]> {
    const age = last === undefined ? Number.POSITIVE_INFINITY : context.clock.monotonic() - last.at;
    if (last !== undefined && age <= FRESH) return last.all;
    making ??= make(context);
    if (last === undefined || age > SHOWABLE) return making;
    // Requests that wait for the new list report its failure.
    making.catch(() => undefined);
    return last.all;
  }

  return async (context) => {
    const seen = (await all(context)).filter(({ name }) => canAccess(context.caller, name));
    const search = context.query.get('search') ?? '';
    const words = search.trim().toLowerCase();
    const found = seen.filter(({ name }) => name.toLowerCase().includes(words));
    const first = Math.min((numberOf(context.query, 'at') ?? 0) * SHOWN, Math.max(0, found.length - 1));
    const shown = context.clean(found.slice(first, first + SHOWN));
    return {
      title: 'Workspaces',
      parts: [
        { id: 'process', body: html`${processProblems(context.clean(context.process))}` },
        { id: 'tally', body: tally(seen) },
        { id: 'search', body: searchForm(search), isForm: true },
        { id: 'workspaces', body: table(shown, { first, total: found.length, search }) },
      ],
    };
  };
}

function tally(all: readonly ListedWorkspace[]): Markup {
  const of = (wanted: ListedWorkspace['verdict']) => all.filter(({ verdict }) => verdict === wanted).length;
  const [blocked, degraded] = [of('blocked'), of('degraded')];
  return html`<p class="soft">${counted(all.length, 'workspace')}: <span class="num">${
    blocked > 0 ? html`<span class="bad strong">${count(blocked)} blocked</span>, ` : null
  }${degraded > 0 ? html`<span class="wait strong">${count(degraded)} degraded</span>, ` : null}${count(of('ok'))} ok</span></p>`;
}

function searchForm(search: string): Markup {
  return html`<form class="filters" method="get" action="/" role="search"><label class="whole">Name<input type="search" name="search" value="${search}"></label>
<button>Search</button>${search === '' ? null : html`<a class="button" href="/">Show all</a>`}</form>`;
}

function table(
  rows: readonly ListedWorkspace[],
  { first, total, search }: { readonly first: number; readonly total: number; readonly search: string },
): Markup {
  const at = Math.floor(first / SHOWN);
  const link = (page: number) =>
    `/?${new URLSearchParams({ ...(search === '' ? {} : { search }), at: String(page) }).toString()}`;
  return dataTable<ListedWorkspace>({
    title: search === '' ? 'Worst first' : `Names with “${search}”`,
    rows,
    empty: search === '' ? 'No workspace is configured.' : 'No workspace has a name like that.',
    foot: pager({
      words: `${first + 1}–${first + rows.length} of ${total}`,
      previous: at > 0 ? link(at - 1) : null,
      next: first + rows.length < total ? link(at + 1) : null,
    }),
    columns: [
      { title: 'State', kind: 'state', cell: ({ verdict }) => verdictChip(verdict) },
      { title: 'Workspace', kind: 'name', cell: ({ name }) => linkTo(name, '', {}, name) },
      { title: 'What', kind: 'text', cell: ({ summary }) => summary },
      {
        title: 'To send',
        kind: 'number',
        isTitled: true,
        cell: ({ waiting }) => (waiting === 0 ? html`<span class="none">0</span>` : count(waiting)),
      },
      {
        title: 'Needs approval',
        kind: 'number',
        isTitled: true,
        cell: ({ held }) =>
          held === 0 ? html`<span class="none">0</span>` : html`<span class="bad">${count(held)}</span>`,
      },
      {
        title: 'Quota',
        kind: 'number',
        isTitled: true,
        cell: ({ quota }) =>
          quota === null ? null : `${count(quota.used)} of ${quota.cap === null ? '∞' : count(quota.cap)}`,
      },
    ],
  });
}
