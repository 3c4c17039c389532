/**
 * The text without the signs at its end. A pattern such as `/[.,]+$/` would take the square of the length: it tries
 * again from each of many signs that do not stand at the end.
 */
export function withoutEnd(text: string, signs: string): string {
  let end = text.length;
  while (end > 0 && signs.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
