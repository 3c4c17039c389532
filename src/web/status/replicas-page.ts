import { namesOfReplicas } from '../../admin/status/replica-status.ts';
import type { ReplicaStatus, SharedStatus } from '../../admin/status/status.ts';
import { counted } from '../../platform/lib/quantities.ts';
import { html, type Markup } from '../html.ts';
import { chip, dataTable, numberOf, pager, when } from '../pages/fragments.ts';
import { linkTo, type PageContent, type PageContext } from '../pages/page-content.ts';
import { causeBoxes } from './verdict-banner.ts';

const SHOWN = 100;

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
  const at = Math.min(numberOf(query, 'at') ?? 0, Math.floor(Math.max(0, all.length - 1) / SHOWN));
  const rows = all.slice(at * SHOWN, (at + 1) * SHOWN);
  const link = (page: number) => `/replicas?at=${page}`;
  return dataTable({
    title: `Who works on ${counted(all.length, 'workspace')}`,
    rows,
    empty: 'No replica that answers works on a workspace.',
    foot: pager({
      words: `${at * SHOWN + 1}–${at * SHOWN + rows.length} of ${all.length}`,
      previous: at > 0 ? link(at - 1) : null,
      next: (at + 1) * SHOWN < all.length ? link(at + 1) : null,
    }),
    columns: [
      { title: 'Workspace', kind: 'name', cell: ({ workspace }) => linkTo(workspace, '', {}, workspace) },
      { title: 'Replica', kind: 'text', cell: ({ replica }) => replica },
      { title: 'Since', kind: 'tight', isTitled: true, cell: ({ since }) => when(now - since, now) },
    ],
  });
}
