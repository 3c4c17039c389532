/**
 * Longest text that is given to `indexOf`: its search is linear up to about this length, and for longer ones takes
 * product time on texts that repeat themselves (measured: 0.3 s for one search of 10 000 in 200 000 characters).
 */
const LONGEST_PROBE = 200;

/**
 * The first two places where `wanted` occurs, overlapping ones included: `aa` occurs twice in `aaa`.
 * Takes time linear in both lengths, whatever they hold; `wanted` is not empty.
 */
export function placesOf(text: string, wanted: string): number[] {
  const probe = wanted.slice(0, LONGEST_PROBE);
  const places: number[] = [];
  let effort = 0;
  for (let at = text.indexOf(probe); at !== -1; at = text.indexOf(probe, at + 1)) {
    if (text.startsWith(wanted, at) && places.push(at) === 2) break;
    effort += wanted.length;
    if (effort > text.length + wanted.length) return placesByBorders(text, wanted);
  }
  return places;
}

/** Knuth, Morris and Pratt: never looks at a character of the text twice, so that no text makes it slow. */
function placesByBorders(text: string, wanted: string): number[] {
  const borders = bordersOf(wanted);
  const places: number[] = [];
  let matched = 0;
  for (let at = 0; at < text.length && places.length < 2; at++) {
    matched = extend(wanted, borders, matched, text.charCodeAt(at));
    if (matched < wanted.length) continue;
    places.push(at + 1 - matched);
    matched = borders[matched - 1]!;
  }
  return places;
}

/** For each prefix the length of its longest proper prefix that is also its suffix. */
function bordersOf(wanted: string): Int32Array {
  const borders = new Int32Array(wanted.length);
  for (let at = 1; at < wanted.length; at++)
    borders[at] = extend(wanted, borders, borders[at - 1]!, wanted.charCodeAt(at));
  return borders;
}

/** The longest prefix that ends with the next character, given the one that ended before it. */
function extend(wanted: string, borders: Int32Array, matched: number, next: number): number {
  let length = matched;
  while (length > 0 && wanted.charCodeAt(length) !== next) length = borders[length - 1]!;
  return wanted.charCodeAt(length) === next ? length + 1 : length;
}
