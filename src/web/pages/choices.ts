import { html, type Markup } from '../html.ts';

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
  /** The name of the parameter. */
  readonly name: string;
  readonly values: readonly Value[];
  readonly chosen: Value | undefined;
}

/** Returns a number of an address, 1 or more; null if it has none. */
export function numberOf(given: { get(name: string): string | null | undefined }, name: string): number | null {
  const number = Number(given.get(name) ?? Number.NaN);
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}
