import { closest, distance } from 'fastest-levenshtein';

/**
 * Removes these characters from the end of a text. A pattern such as `/[.,]+$/` would take the square of the length, because it
 * tries again from each matching character that is not at the end.
 */
export function withoutEnd(text: string, signs: string): string {
  let end = text.length;
  while (end > 0 && signs.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** Replaces control characters, escape sequences and characters that reorder text by U+FFFD, so that the text is safe in a terminal. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');
}

/** Escapes a text for a pattern that finds exactly it. (`RegExp.escape` needs Node 24.) */
export function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

/**
 * Replaces the characters that no database stores by U+FFFD: the one of code 0, which PostgreSQL refuses, and halves of surrogate
 * pairs.
 */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd');
}

/** Replaces them in all texts of JSON data, including the names of fields. Returns the same value if nothing is replaced. */
export function withStorableTexts<Value>(value: Value): Value {
  if (typeof value === 'string') return storable(value) as Value;
  if (typeof value !== 'object' || value === null) return value;
  const given = Object.entries(value);
  const kept = given.map(([name, each]) => [storable(name), withStorableTexts(each)] as const);
  if (kept.every(([name, each], at) => name === given[at]?.[0] && each === given[at]?.[1])) return value;
  return (Array.isArray(value) ? kept.map(([, each]) => each) : Object.fromEntries(kept)) as Value;
}

/** Returns the most similar candidate; undefined if more than a third of its letters differ. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (candidates.length === 0) return undefined;
  const best = closest(word, candidates);
  return distance(word, best) <= Math.ceil(best.length / 3) ? best : undefined;
}

/** Returns ` (did you mean "x"?)`, or an empty text if no candidate is near. */
export function didYouMean(word: string, candidates: readonly string[]): string {
  const meant = nearest(word, candidates);
  return meant === undefined ? '' : ` (did you mean "${meant}"?)`;
}
