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
