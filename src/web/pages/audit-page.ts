import type { AuditEntry } from '../../admin/audit.ts';
import { count } from '../../platform/lib/quantities.ts';
import { html } from '../html.ts';
import { when } from '../moment.ts';
import { numberOf } from './choices.ts';
import { dataTable, pager } from './data-table.ts';
import { ask, type PageContent, pathOf, type WorkspaceVisit } from './page-content.ts';
import { chip, type Tone } from './tones.ts';

const SHOWN = 50;

const OUTCOMES: Readonly<Record<AuditEntry['outcome'], readonly [tone: Tone, words: string]>> = {
  begun: ['wait', 'begun'],
  done: ['good', 'done'],
  failed: ['bad', 'failed'],
  asked: ['wait', 'in 10 s'],
  undone: ['soft', 'undone'],
};

/** The page of the changes that people made by commands and buttons, the latest first. */
export async function auditPage(visit: WorkspaceVisit): Promise<PageContent> {
  const { partition, now, query } = visit;
  const before = numberOf(query, 'before');
  const { entries, next } = visit.clean(await ask(visit, 'audit', { since: null, before, limit: SHOWN }));
  const table = dataTable<AuditEntry>({
    title: 'What people changed',
    rows: entries,
    empty: 'Nobody has changed anything of this workspace by a command or a button yet.',
    foot: pager({
      words: 'latest first',
      previous: before === null ? null : pathOf(partition.name, 'audit'),
      next: next === null ? null : pathOf(partition.name, 'audit', { before: next }),
    }),
    columns: [
      { title: 'State', kind: 'state', cell: ({ outcome }) => chip(...OUTCOMES[outcome]) },
      {
        title: 'What',
        kind: 'name',
        cell: ({ action, subject }) =>
          html`${action.replaceAll('-', ' ')}${subject === null ? null : html` <span class="soft text">${subject}</span>`}`,
      },
      {
        title: 'How many',
        kind: 'number',
        isTitled: true,
        cell: ({ count: many }) => (many === null ? null : count(many)),
      },
      { title: 'Who', kind: 'tight', isTitled: true, cell: ({ actor }) => actor },
      { title: 'When', kind: 'tight', cell: ({ at }) => when(at, now) },
      { title: 'Details', kind: 'text', cell: ({ details }) => details },
    ],
  });
  return { title: 'Audit', parts: [{ id: 'audit', body: table }] };
}
