import type { EffectiveValue } from '../../admin/effective-config.ts';
import { workspaceConfiguration } from '../../admin/workspace-configuration.ts';
import { html, type Markup } from '../html.ts';
import { dataTable } from './data-table.ts';
import type { PageContent, WorkspaceVisit } from './page-content.ts';

/** The values in use with their origins: first the configured ones, then the defaults. */
export async function configurationPage(visit: WorkspaceVisit): Promise<PageContent> {
  const { partition, scrub, caller, daemonOptions } = visit;
  const values = await workspaceConfiguration(partition, scrub);
  const isDefault = ({ origin }: EffectiveValue) => origin === 'default';
  return {
    title: 'Configuration',
    parts: [
      {
        id: 'written',
        body: valueTable(
          'Written in the file',
          values.filter((each) => !isDefault(each)),
        ),
      },
      { id: 'defaults', body: valueTable('Defaults', values.filter(isDefault)) },
      // Callers with some workspaces only must not see the options of the machine.
      ...(caller.workspaces === null
        ? [{ id: 'daemon', body: valueTable('Options of the daemon', await daemonOptions()) }]
        : []),
    ],
  };
}

function valueTable(title: string, values: readonly EffectiveValue[]): Markup {
  return dataTable<EffectiveValue>({
    title,
    rows: values,
    empty: 'Nothing.',
    columns: [
      { title: 'Key', kind: 'name', cell: ({ key }) => html`<code>${key}</code>` },
      { title: 'Value', kind: 'text', cell: ({ value }) => html`<code>${wordsOf(value)}</code>` },
      { title: 'Origin', kind: 'text', cell: ({ origin }) => html`<span class="soft">${shortOrigin(origin)}</span>` },
    ],
  });
}

function wordsOf(value: unknown): string {
  if (value === null) return 'not set';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Shortens an origin to the name of its file, because the daemon knows the folder. */
function shortOrigin(origin: string): string {
  return origin.replace(/^.*\/(?=[^/]+:\d)/, '');
}
