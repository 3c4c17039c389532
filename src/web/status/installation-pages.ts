import type { ListedWorkspace, ReplicaStatus, SharedStatus } from '../../admin/status/status.ts';
import { namesOfReplicas } from '../../admin/status/whole-status.ts';
import { canAccess } from '../../model/caller.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import { chip, dataTable, html, type Markup, numberOf, pager, verdictChip, when } from '../html.ts';
import { linkTo, type PageContent, type PageContext } from '../pages/page-content.ts';
import { causeBoxes, processProblems } from '../pages/problem-content.ts';

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
        { id: 'workspaces', body: listTable(shown, { first, total: found.length, search }) },
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

function listTable(
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

const LEASES_SHOWN = 100;

/** The processes that share the workspaces, and which of them works on which. */
export function replicasPage(context: PageContext, status: SharedStatus): PageContent {
  const { replicas, causes } = context.clean(status);
  return {
    title: 'Replicas',
    parts: [
      { id: 'causes', body: html`${causeBoxes(causes)}` },
      { id: 'replicas', body: replicaTable(replicas, context.now) },
      { id: 'leases', body: leaseTable(replicas, context) },
    ],
  };
}

function replicaTable(rows: readonly ReplicaStatus[], now: number): Markup {
  return dataTable<ReplicaStatus>({
    title: 'Replicas',
    isTitleHidden: true,
    rows,
    empty: 'This replica has not renewed its leases yet.',
    columns: [
      { title: 'State', kind: 'state', cell: stateOf },
      { title: 'Replica', kind: 'name', cell: ({ host, isOwn }) => `${host}${isOwn ? ' (this one)' : ''}` },
      { title: 'Address', kind: 'text', cell: ({ address }) => address },
      { title: 'Version', kind: 'tight', isTitled: true, cell: ({ version }) => version },
      { title: 'Started', kind: 'tight', isTitled: true, cell: ({ startedAt }) => when(startedAt, now) },
      {
        title: 'Workspaces',
        kind: 'number',
        isTitled: true,
        cell: ({ holds }) => (holds === null ? null : String(holds.length)),
      },
    ],
  });
}

function stateOf({ holds, sameConfig }: ReplicaStatus): Markup {
  if (holds === null) return chip('bad', 'silent');
  return sameConfig ? chip('good', 'ok') : chip('wait', 'other configuration');
}

function leaseTable(replicas: readonly ReplicaStatus[], { query, now }: PageContext): Markup {
  const names = namesOfReplicas(replicas);
  const all = replicas
    .flatMap(({ id, host, holds }) => (holds ?? []).map((held) => ({ ...held, replica: names.get(id) ?? host })))
    .toSorted((a, b) => (a.workspace < b.workspace ? -1 : 1));
  const at = Math.min(numberOf(query, 'at') ?? 0, Math.floor(Math.max(0, all.length - 1) / LEASES_SHOWN));
  const rows = all.slice(at * LEASES_SHOWN, (at + 1) * LEASES_SHOWN);
  const link = (page: number) => `/replicas?at=${page}`;
  return dataTable({
    title: `Who works on ${counted(all.length, 'workspace')}`,
    rows,
    empty: 'No replica that answers works on a workspace.',
    foot: pager({
      words: `${at * LEASES_SHOWN + 1}–${at * LEASES_SHOWN + rows.length} of ${all.length}`,
      previous: at > 0 ? link(at - 1) : null,
      next: (at + 1) * LEASES_SHOWN < all.length ? link(at + 1) : null,
    }),
    columns: [
      { title: 'Workspace', kind: 'name', cell: ({ workspace }) => linkTo(workspace, '', {}, workspace) },
      { title: 'Replica', kind: 'text', cell: ({ replica }) => replica },
      { title: 'Since', kind: 'tight', isTitled: true, cell: ({ since }) => when(now - since, now) },
    ],
  });
}
