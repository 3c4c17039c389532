import type { PostponedAction } from '../../admin/changes/postponed.ts';
import { type EntityNames, entityNamesOf } from '../../admin/items/human-names.ts';
import type { Cause } from '../../admin/status/status.ts';
import type { HeldClass } from '../../model/change.ts';
import { asTyped, commandAsTyped } from '../../platform/lib/own-program.ts';
import { count, counted } from '../../platform/lib/quantities.ts';
import type { HeldChanges } from '../../store/changes/held-changes.ts';
import { troubles } from '../connections/connection-cards.ts';
import { deliveryChip, deliveryLink } from '../deliveries/delivery-table.ts';
import { helpOf } from '../help.ts';
import { chip, copyable, dataTable, html, type Markup, VERDICT_TONES, when } from '../html.ts';
import { entityNoun, entityWords } from '../items/entity-words.ts';
import { actionForm, doneNote } from '../pages/page-actions.ts';
import { mayAct, type PageContent, pathOf, request, type WorkspacePageContext } from '../pages/page-content.ts';
import { failureWords, note } from '../pages/problem-content.ts';

/** Changes shown of a class: some as samples, and all of them in a preview. */
const SAMPLES = 3;
const PREVIEWED = 50;

/** The page of the problems: a part for each cause, with its possible actions. */
export async function problemsPage(context: WorkspacePageContext): Promise<PageContent> {
  const { causes } = context.status;
  const parts = [];
  for (const cause of causes) parts.push({ id: `cause-${cause.code}`, body: await causeCard(context, cause) });
  const none = html`<p class="card empty">Nothing is wrong. What needs you will stand here.</p>`;
  return {
    title: 'Problems',
    parts: [
      { id: 'done', body: html`${doneNote(context)}` },
      { id: 'postponed', body: await postponedNotes(context) },
      ...(parts.length === 0 ? [{ id: 'none', body: none }] : parts),
    ],
  };
}

/** The actions of the last ten seconds that can be undone. */
async function postponedNotes(context: WorkspacePageContext): Promise<Markup> {
  const { actions } = context.clean(await request(context, 'postponed', {}));
  return html`${actions.map(({ id, question, count: many, at }) => {
    return note(
      'wait',
      POSTPONED_WORDS[question](many),
      html`<div class="line">${actionForm(context, { action: 'undo', words: 'Undo', fields: { id }, look: 'main', id: `undo-${id}` })}<span class="hint">${when(at, context.now)}</span></div>`,
    );
  })}`;
}

const POSTPONED_WORDS: Readonly<Record<PostponedAction['question'], (many: number) => string>> = {
  release: (many) => `${counted(many, 'change')} will be released`,
  retry: (many) => `${deliveries(many)} will be tried again`,
  dismiss: (many) => `${deliveries(many)} will be dismissed`,
  'changes-retry': (many) => `${counted(many, 'change')} will be tried again`,
  'changes-drop': (many) => `${counted(many, 'change')} will be dropped`,
};

function deliveries(many: number): string {
  return many === 1 ? '1 delivery' : `${count(many)} deliveries`;
}

/** Causes whose cards have buttons in place of the hint. */
const HAS_BUTTONS: ReadonlySet<string> = new Set(['changes_held', 'deliveries_quarantined']);

async function causeCard(context: WorkspacePageContext, cause: Cause): Promise<Markup> {
  const { code, message, hint, verdict, stops, since, seenAt, command } = cause;
  const { now } = context;
  const asked =
    command === null ? null : html` · on the machine: ${copyable(commandAsTyped(command.replace(/^worksync /, '')))}`;
  return html`<section class="card stack" id="${code}"><div class="row"><h2 class="text">${message}</h2>${chip(VERDICT_TONES[verdict], verdict === 'blocked' ? 'blocks everything' : 'needs you')}</div>
<p>${asTyped(stops)}</p>
${HAS_BUTTONS.has(code) ? null : html`<p class="soft">${asTyped(hint)}</p>`}
${await detailsOf(context, code)}
<p class="hint">since ${when(since, now)}, last seen ${when(seenAt, now)}${asked} · <a href="${helpOf(code)}">help</a></p></section>`;
}

async function detailsOf(context: WorkspacePageContext, code: string): Promise<Markup | null> {
  const { connections, backfills } = context.status;
  if (code === 'changes_held') return heldDetails(context);
  if (code === 'deliveries_quarantined') return quarantineDetails(context);
  if (code === 'backfill_failing')
    return html`<ul class="stack">${backfills.flatMap(({ connection, failures }) =>
      failures.map(
        ({ unit, error }) =>
          html`<li class="text"><strong>${connection}</strong> ${unit === null ? null : html`<code>${unit}</code> `}${error}</li>`,
      ),
    )}</ul>`;
  const rows = connections.flatMap((each) => {
    const isFailing = code === 'connections_failing' && each.failure !== null;
    const words = isFailing ? [failureOf(context, each)] : troubles(each, code);
    return words.length === 0 ? [] : [html`<li><strong>${each.name}</strong> ${words}</li>`];
  });
  return rows.length === 0 ? null : html`<ul class="stack">${rows}</ul>`;
}

function failureOf(
  { now }: WorkspacePageContext,
  { failure, lastPollAt }: WorkspacePageContext['status']['connections'][number],
): Markup {
  return html`<span class="hint">failed ${when(failure?.at ?? null, now)}, last complete poll ${when(lastPollAt, now)}</span><div>${failureWords(failure)}</div>`;
}

const CLASS_WORDS: Readonly<Record<HeldClass, readonly [noun: string, why: string]>> = {
  removals: ['removal', 'take away links, or close records, more at a time than the guard lets pass'],
  creations: ['creation', 'add more at a time than the guard lets pass'],
  repairs: ['repair', 'would write over many records that somebody else has changed'],
  statuses: ['status change', 'would change more task statuses at a time than the guard lets pass'],
  refused: ['refused change', 'were refused by the workspace for good'],
};

/** Held changes by class, each with samples; with `?preview=` all of one class, and the button that releases them. */
async function heldDetails(context: WorkspacePageContext): Promise<Markup> {
  const wanted = context.query.get('preview');
  const held = context.clean(await request(context, 'held', { samples: wanted === undefined ? SAMPLES : PREVIEWED }));
  const classes = (Object.keys(CLASS_WORDS) as HeldClass[]).filter((each) => held[each].count > 0);
  const names = await entityNamesOf(
    context.partition,
    classes.flatMap((each) => held[each].samples),
  );
  return html`${classes.map((each) => heldClass(context, each, held[each], context.clean(names)))}`;
}

function heldClass(
  context: WorkspacePageContext,
  which: HeldClass,
  { count: total, samples }: HeldChanges[HeldClass],
  names: EntityNames,
): Markup {
  const { partition, now, query } = context;
  const [noun, why] = CLASS_WORDS[which];
  const isPreview = query.get('preview') === which;
  const shown = isPreview ? samples : samples.slice(0, SAMPLES);
  const more = total > shown.length ? html`<p class="pager hint">and ${count(total - shown.length)} more</p>` : null;
  return html`<div class="stack" id="held-${which}"><div class="row"><p><strong>${counted(total, noun)}</strong> <span class="soft">that ${why}</span></p>
<div class="line">${buttonsOf(context, which, total, isPreview)}</div></div>
${dataTable({
  title: counted(total, noun),
  isTitleHidden: true,
  rows: shown,
  empty: '',
  foot: more,
  columns: [
    { title: 'Kind', kind: 'state', cell: ({ entity }) => chip('wait', nounOf(names, entity)) },
    { title: 'What', kind: 'name', cell: ({ entity }) => wordsOf(partition.name, names, entity) },
    { title: 'Since', kind: 'tight', cell: ({ since }) => when(since, now) },
    ...(which === 'refused' ? [{ title: 'Why', kind: 'text' as const, cell: whyRefused }] : []),
  ],
})}</div>`;
}

function whyRefused({ error }: HeldChanges[HeldClass]['samples'][number]): Markup | null {
  return error === null ? null : html`<span class="soft">${error}</span>`;
}

function nounOf(names: EntityNames, entity: string): string {
  const name = names[entity];
  return name ? entityNoun(name) : 'Change';
}

function wordsOf(workspace: string, names: EntityNames, entity: string): Markup | string {
  const name = names[entity];
  return name ? entityWords(workspace, name) : entity;
}

function buttonsOf(context: WorkspacePageContext, which: HeldClass, total: number, isPreview: boolean): Markup | null {
  const { name } = context.partition;
  if (!mayAct(context)) return html`<span class="hint">To approve them, log in as an administrator</span>`;
  const [noun] = CLASS_WORDS[which];
  if (!isPreview)
    return html`<a class="button main" id="preview-${which}" href="${pathOf(name, 'problems', { preview: which })}#held-${which}">Preview and release</a>`;
  return html`${actionForm(context, { action: 'release', words: `Release ${counted(total, noun)}`, fields: { class: which }, look: 'main', id: `release-${which}` })}
<a class="button" href="${pathOf(name, 'problems')}">Back</a>`;
}

async function quarantineDetails(context: WorkspacePageContext): Promise<Markup> {
  const { partition, now, status } = context;
  const rows = context.clean(await request(context, 'quarantine', { limit: 20 }));
  const total = status.deliveries.quarantined;
  return html`<div class="row"><p class="soft">Stored as received. When the sender repeats one, worksync tries it again by itself.</p>
${actionForm(context, { action: 'retry', words: `Retry ${deliveries(total)}`, look: 'main', id: 'retry-quarantined' })}
${actionForm(context, { action: 'dismiss', words: `Dismiss ${deliveries(total)}`, id: 'dismiss-quarantined' })}</div>
${dataTable({
  title: 'Quarantined deliveries',
  isTitleHidden: true,
  foot: total > rows.length ? html`<p class="pager hint">and ${count(total - rows.length)} more</p>` : null,
  rows,
  empty: '',
  columns: [
    { title: 'State', kind: 'state', cell: () => deliveryChip('quarantined') },
    { title: 'Delivery', kind: 'name', cell: (delivery) => deliveryLink(partition.name, delivery) },
    { title: 'Received', kind: 'tight', cell: ({ receivedAt }) => when(receivedAt, now) },
    { title: 'Why', kind: 'text', cell: ({ reason }) => reason ?? 'no reason was recorded' },
  ],
})}`;
}
