/** Sizes that the workspace accepts (W11, W24), UTF-16 units. Longer texts are cut before they are sent. */
export const LONGEST_TITLE = 255;
export const LONGEST_TEXT = 200_000;
/** The longest name of a person or a label, and the most of each in a record (W59). Others are left out. */
export const LONGEST_NAME = 255;
export const MOST_NAMES = 1_000;

/** How much of a text in a vendor's own format is read, UTF-16 units. The result is cut to `LONGEST_TEXT` later. */
export const LONGEST_SOURCE = 262_144;

/** Cuts to `longest` UTF-16 units, ending in an ellipsis. */
export function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${beginningOf(text, longest - 1)}…`;
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });
/** A longer sign, such as a letter with a hundred accents, is cut between its code points. UTF-16 units. */
const MAX_SIGN = 64;

/** Returns at most `longest` UTF-16 units of the text, without half a sign at the end, such as half an emoji. */
export function beginningOf(text: string, longest: number): string {
  if (text.length <= longest) return text;
  const sign = graphemes.segment(text.slice(0, longest + MAX_SIGN)).containing(longest);
  const end = sign && longest - sign.index <= MAX_SIGN ? sign.index : longest;
  return text.slice(0, end > 0 && isHighSurrogate(text.charCodeAt(end - 1)) ? end - 1 : end);
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** Whether people see nothing of the text: it has only spaces, control characters and signs without a width. */
export function isBlank(text: string): boolean {
  return !VISIBLE.test(text);
}

/** U+2800 is the Braille pattern without a dot. */
const VISIBLE = /[^\s\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u;
