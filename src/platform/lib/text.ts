/**
 * The text without the signs at its end. A pattern such as `/[.,]+$/` would take the square of the length: it tries
 * again from each of many signs that do not stand at the end.
 */
export function withoutEnd(text: string, signs: string): string {
  let end = text.length;
  while (end > 0 && signs.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** The text as part of a pattern that finds exactly it. (`RegExp.escape` needs Node 24.) */
export function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

/**
 * The text without what no database keeps: the sign of code 0, which PostgreSQL refuses, and halves of surrogate pairs. U+FFFD takes
 * their places.
 */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\ufffd');
}

/** The same of all texts within data as JSON has it, names of fields too. Itself where nothing is to be replaced. */
export function withStorableTexts<Value>(value: Value): Value {
  if (typeof value === 'string') return storable(value) as Value;
  if (typeof value !== 'object' || value === null) return value;
  const given = Object.entries(value);
  const kept = given.map(([name, each]) => [storable(name), withStorableTexts(each)] as const);
  if (kept.every(([name, each], at) => name === given[at]?.[0] && each === given[at]?.[1])) return value;
  return (Array.isArray(value) ? kept.map(([, each]) => each) : Object.fromEntries(kept)) as Value;
}
