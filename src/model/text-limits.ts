/** Sizes that the workspace accepts (W11, W24), UTF-16 units. Longer texts are cut before they are sent. */
export const LONGEST_TITLE = 255;
export const LONGEST_TEXT = 200_000;
/** The longest name of a person or a label, and the most of each in a record (W59). Others are left out. */
export const LONGEST_NAME = 255;
export const MOST_NAMES = 1_000;

/** How much of a text in a vendor's own format is read, UTF-16 units. The result is cut to `LONGEST_TEXT` later. */
export const LONGEST_SOURCE = 262_144;

/** Cuts to `longest` UTF-16 units, ending in an ellipsis, without splitting a surrogate pair. */
export function cut(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const end = isHighSurrogate(text.charCodeAt(longest - 2)) ? longest - 2 : longest - 1;
  return `${text.slice(0, end)}…`;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
