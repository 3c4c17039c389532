import type { NamedEntity, NamedItem } from '../../admin/items/human-names.ts';
import { copyable, html, type Markup } from '../html.ts';
import { linkTo } from '../pages/page-content.ts';

/** `acme/app#12 Pay by card`, which leads to the item's page. */
export function itemLink(workspace: string, { name, key, title }: NamedItem): Markup {
  return html`${linkTo(workspace, 'item', { name: key }, name)}${title === null ? null : html` <span class="text">${title}</span>`}`;
}

const NOUNS: Readonly<Record<NamedEntity['kind'], string>> = {
  pull_request: 'Record',
  link: 'Link',
  task: 'Task',
  task_update: 'Task update',
  document: 'Document',
  read: 'Read',
};

export function entityNoun({ kind }: Pick<NamedEntity, 'kind'>): string {
  return NOUNS[kind];
}

/** The subject of a change in people's words, and its id to copy. */
export function entityWords(workspace: string, { item, task, label, entity }: NamedEntity): Markup {
  const linked =
    task && html` <span class="soft">to</span> ${linkTo(workspace, 'item', { name: task.key }, task.name)}`;
  const words = item === null ? label : html`${itemLink(workspace, item)}${linked}`;
  return html`${words}<div class="hint">${copyable(entity)}</div>`;
}
