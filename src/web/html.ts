import type { Verdict } from '../admin/status/status.ts';
import { duration } from '../platform/lib/quantities.ts';

/** Text that is HTML already: made by `html`, or a constant. Never built from data. */
export class Markup {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

type Value = Markup | string | number | null | readonly Value[];

/**
 * Builds HTML. Every value is escaped unless it is `Markup`, so no page can forget it. Fit for text and for quoted
 * attributes. `null` is left out; a list is joined.
 */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Markup {
  return new Markup(String.raw({ raw: strings }, ...values.map(render)));
}

function render(value: Value): string {
  if (value === null) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value === 'object') return value.map(render).join('');
  return escapeText(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** The text of a form's field. The form sends it back, so no character of it is replaced. */
export function fieldText(text: string): Markup {
  return new Markup(escapeMarkup(text));
}

/** Characters that steer a terminal or reorder the text around them are shown, not obeyed. Joiners make emoji. */
const UNSEEN = /(?![\t\n])[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\u2060\ufeff]/gu;

function escapeText(text: string): string {
  return escapeMarkup(text.replace(UNSEEN, '\ufffd'));
}

function escapeMarkup(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

/** How much a word asks for attention; never said by colour alone. */
export type Tone = 'good' | 'wait' | 'bad' | 'soft';

/** A sign for each tone, so that nobody depends on colours. */
const SIGNS: Readonly<Record<Tone, string>> = { good: '●', wait: '◆', bad: '■', soft: '○' };

export function sign(tone: Tone): Markup {
  return html`<span class="mark" aria-hidden="true">${SIGNS[tone]}</span>`;
}

export function chip(tone: Tone, words: string): Markup {
  return html`<span class="chip ${tone}">${sign(tone)}${words}</span>`;
}

export const VERDICT_TONES: Readonly<Record<Verdict, Tone>> = { ok: 'good', degraded: 'wait', blocked: 'bad' };

export function verdictChip(verdict: Verdict): Markup {
  return chip(VERDICT_TONES[verdict], verdict);
}

/** An id that people copy; the script adds the button. */
export function copyable(id: string, shown: string = id): Markup {
  return html`<code data-copy="${id}">${shown}</code>`;
}

/** A term of a list of facts with its value; nothing if the value is empty. */
export function fact(term: string, value: Markup | string | null | undefined): Markup | null {
  return value === null || value === undefined || value === ''
    ? null
    : html`<div><dt>${term}</dt><dd>${value}</dd></div>`;
}

/** When the last of the waiting requests is sent; null: nothing is sent. Less than a second is no wait. */
export function lastSent(at: number | null, now: number): Markup | string {
  if (at === null) return 'not while the workspace is blocked';
  return at >= now + 1_000 ? html`the last ${when(at, now)}` : 'now';
}

/** A moment relative to `now`; its exact time is in the tooltip. */
export function when(at: number | null, now: number): Markup {
  if (at === null) return html`<span class="none">–</span>`;
  const iso = new Date(at).toISOString();
  const words = at > now ? `in ${duration(at - now)}` : `${duration(now - at)} ago`;
  return html`<time datetime="${iso}" title="${iso}">${now - at < 1_000 && at <= now ? 'just now' : words}</time>`;
}

interface Column<Row> {
  readonly title: string;
  /**
   * name    the subject of the row, for people: heads the row.
   * state   a chip; comes first on a narrow screen.
   * number  aligned to the right.
   * tight   as narrow as its content.
   * text    the remaining width.
   * act     buttons.
   */
  readonly kind: 'name' | 'state' | 'number' | 'tight' | 'text' | 'act';
  readonly cell: (row: Row) => Markup | string | null;
  /** Shows the title beside the value on a narrow screen, which has no head. */
  readonly isTitled?: true;
}

interface TableOptions<Row> {
  readonly title: string;
  /** The text above the table contains the title already; only screen readers need it. */
  readonly isTitleHidden?: true;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly note?: Markup | null;
  readonly empty: Markup | string;
  readonly foot?: Markup | null;
}

const CLASSES: Readonly<Record<Column<unknown>['kind'], string>> = {
  name: 'name',
  state: 'tight',
  number: 'number',
  tight: 'tight',
  text: 'text',
  act: 'tight act',
};

/** A table that on a narrow screen becomes a list, so that the page never scrolls sideways. */
export function dataTable<Row>({ title, isTitleHidden, columns, rows, note, empty, foot }: TableOptions<Row>): Markup {
  if (rows.length === 0)
    return html`<section class="card list"><div class="over"><h2>${title}</h2>${note ?? null}</div>
<p class="empty">${empty}</p></section>`;
  return html`<section class="card list flow"><table>
<caption${isTitleHidden ? html` class="unseen"` : null}><h2>${title}</h2>${note ?? null}</caption>
<thead><tr>${columns.map(headOf)}</tr></thead>
<tbody>
${rows.map((row) => html`<tr>${columns.map((column) => cellOf(column, row))}</tr>\n`)}</tbody></table>${foot ?? null}</section>`;
}

function headOf<Row>({ title, kind }: Column<Row>): Markup {
  const words = kind === 'act' ? html`<span class="unseen">${title}</span>` : title;
  return html`<th scope="col" class="${CLASSES[kind]}">${words}</th>`;
}

function cellOf<Row>({ title, kind, cell, isTitled }: Column<Row>, row: Row): Markup {
  const content = cell(row);
  if (kind === 'name') return html`<th scope="row" class="name">${content}</th>`;
  const titled = isTitled ? html` data-title="${title}"` : null;
  return html`<td class="${CLASSES[kind]}${content === null ? ' blank' : ''}"${titled}>${content}</td>`;
}

export function pager({ words, previous, next }: Pager): Markup | null {
  if (previous === null && next === null) return null;
  const link = (to: string | null, direction: string) =>
    to === null ? html`<span class="none">${direction}</span>` : html`<a href="${to}">${direction}</a>`;
  return html`<nav class="pager" aria-label="Pages of the list">${link(previous, '← Previous')}
<span class="hint num">${words}</span>${link(next, 'Next →')}</nav>`;
}

interface Pager {
  /** The position of this page in the list. */
  readonly words: string;
  readonly previous: string | null;
  readonly next: string | null;
}

/** A field to choose one of several things, or `any`. */
export function choiceOf<Value extends string>(
  { title, name, values, chosen }: Choice<Value>,
  wordsOf: (value: Value) => string = (value) => value,
): Markup {
  const option = (value: string, words: string, isChosen: boolean) =>
    html`<option value="${value}"${isChosen ? html` selected` : null}>${words}</option>`;
  return html`<label>${title}<select name="${name}">${option('', 'any', chosen === undefined)}${values.map((each) =>
    option(each, wordsOf(each), each === chosen),
  )}</select></label>`;
}

interface Choice<Value> {
  readonly title: string;
  readonly name: string;
  readonly values: readonly Value[];
  readonly chosen: Value | undefined;
}

/** Returns a number of an address, 1 or more; null if it has none. */
export function numberOf(given: { get(name: string): string | null | undefined }, name: string): number | null {
  const number = Number(given.get(name) ?? Number.NaN);
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}
