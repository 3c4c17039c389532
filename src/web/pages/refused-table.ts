import type { Refused } from '../../admin/refused.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import { html, type Markup } from '../html.ts';
import { when } from '../moment.ts';
import { dataTable } from './data-table.ts';
import { chip } from './tones.ts';

/** Nothing of these was stored, so nothing can be replayed: their sender must be corrected. */
export function refusedTable(refused: readonly Refused[], now: number): Markup {
  return dataTable<Refused>({
    title: 'Refused at the door',
    note: html`<p class="hint">Requests that proved nothing, or led nowhere: their senders need a correction. Bodies are not kept.</p>`,
    rows: refused,
    empty: 'No request was refused.',
    columns: [
      { title: 'State', kind: 'state', cell: ({ status }) => chip('bad', String(status)) },
      {
        title: 'Request',
        kind: 'name',
        cell: ({ method, path, code }) =>
          html`<code>${method} ${path}</code><div class="hint"><code>${code}</code></div>`,
      },
      { title: 'From', kind: 'tight', cell: ({ address }) => html`<code>${address}</code>` },
      { title: 'Times', kind: 'number', isTitled: true, cell: ({ count: times }) => count(times) },
      { title: 'Last', kind: 'tight', isTitled: true, cell: ({ lastAt }) => when(lastAt, now) },
      {
        title: 'Why',
        kind: 'text',
        cell: ({ reason, headers }) =>
          html`${reason}<details><summary>${counted(headers.length, 'header')}</summary><pre>${headers.map(([name, value]) => `${name}: ${value}\n`)}</pre></details>`,
      },
    ],
  });
}
