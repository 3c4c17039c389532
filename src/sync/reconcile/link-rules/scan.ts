import { escapePattern } from '../../../platform/lib/text.ts';

/**
 * A name in a text, with the word that stands before it. Which words close, and what they cover, depends on the grammar
 * of what is named, which is not known yet.
 */
export interface Token {
  /** `path-number` is `group/project#12`, `prefix-number` is `AB#12`, `id` begins as the ids of tasks do. */
  readonly kind: 'key' | 'id' | 'short-id' | 'number' | 'path-number' | 'prefix-number' | 'url';
  /** As it is searched for: keys in upper case where the place folds them. Of an address the longest reading. */
  readonly text: string;
  readonly index: number;
  /** In lower case, with single spaces. */
  readonly word?: string;
  /** It stands right behind the word, not further on in the word's list. */
  readonly isFirst: boolean;
}

/** `bug-1.2.3` and `bug-4.x` are a package and its version. */
const NO_VERSION = String.raw`(?!\.(?:[0-9]|[xX](?![A-Za-z0-9])))`;

/**
 * Matches `BUG-12` and `4U-41`: a word of upper-case letters and digits with at least one letter, a hyphen, a number. No digit
 * and no letter of a cased script may stand on either side. Scripts without case are written without spaces around a foreign
 * word, so their letters end a key. The left boundary also keeps matching linear, because a run of letters and digits has one
 * place to start. The patterns below rely on it too.
 */
const KEY = new RegExp(
  String.raw`(?<![\p{Lu}\p{Ll}\p{Lt}\p{Nd}])[0-9]*[A-Z][A-Z0-9]*-[1-9][0-9]{0,8}(?![\p{Lu}\p{Ll}\p{Lt}\p{Nd}])${NO_VERSION}`,
  'gu',
);
/** Ids may contain what people put behind them: see `idsIn`. They have at most 64 characters. */
export function idPattern(prefixes: readonly string[]): RegExp | undefined {
  if (prefixes.length === 0) return undefined;
  const before = notBehind(String.raw`\p{Lu}\p{Ll}\p{Lt}\p{Nd}`);
  const beginning = prefixes.map(escapePattern).join('|');
  return new RegExp(String.raw`${before}(?:${beginning})[A-Za-z0-9_-]{1,60}(?![\p{Lu}\p{Ll}\p{Lt}\p{Nd}])`, 'gu');
}

/** A text with more places where an id may end is read up to these. */
const MOST_ENDS = 5;

/**
 * The ids that a text such as `tsk_a1-fix-door` may mean: all of it, and what stands before each of the first hyphens and
 * underscores, the longest first. Only the cached tasks show which of them exists.
 */
export function idsIn(text: string): string[] {
  const start = text.indexOf('_') + 2;
  const ends = [...text.slice(start).matchAll(/[-_]/g)].slice(0, MOST_ENDS);
  const shorter = ends.map(({ index }) => text.slice(0, start + index));
  return [...new Set([...readingsOf(text), ...shorter.toReversed()])];
}

const SHORT_ID = new RegExp(
  `${notBehind('A-Za-z0-9-')}[0-9]{0,60}[A-Z][A-Z0-9_-]{0,60}-[A-Z0-9]{1,10}${notBefore('A-Za-z0-9-')}${NO_VERSION}`,
  'g',
);
const PATH = String.raw`(?<![\w./-])(?:[\w.-]{1,100}\/){1,20}[\w.-]{1,100}`;
const PLAIN = notBehind(String.raw`A-Za-z0-9&/#.\-`);
const NUMBER = new RegExp(`(?:${PATH}|${PLAIN}[A-Z]{2,10}|${PLAIN})#[1-9][0-9]{0,8}${notBefore('A-Za-z0-9')}`, 'g');
/** What every number has. Most texts have none, and to look for the names before it costs as much as all else together. */
const HAS_NUMBER = /#[1-9]/;
/** Signs of another script than ASCII end an address, as do letters of scripts that are written without spaces. */
const ADDRESSES = /(?<![A-Za-z0-9])https?:\/\/[\w!#$%&*+,\-./:;=?@^~\p{Lu}\p{Ll}\p{Lt}\p{M}\p{Nd}]+/giu;
/** Between two addresses of a list without spaces. Looked for apart: within the other pattern it would cost a stack. */
const NEXT_ADDRESS = /[,;](?=https?:\/\/)/giu;
const NO_MORE_THAN_SCHEME = /^https?:\/\/$/iu;

/** Underscores that stand between a name and what surrounds it are emphasis. */
function notBehind(characters: string): string {
  return `(?<![${characters}])(?<![${characters}]_{1,3})`;
}

function notBefore(characters: string): string {
  return `(?![${characters}]|_{1,3}[${characters}])`;
}

/** The beginning of a text that holds more names than this is enough of it. */
const MOST_TOKENS = 5_000;

export interface ScanWish {
  /** Finds ids of tasks; made by `idPattern`. Absent: none are looked for. */
  readonly ids?: RegExp | undefined;
  /** The text before its letters were folded, if they were: ids keep their case. */
  readonly unfolded?: string;
  /** Matches at the end of what stands before a name; made by `wordPattern`. */
  readonly words: RegExp;
  readonly shortIds: boolean;
}

/** The names in a text, from left to right; short ids, which may overlap them, come last. */
export function scan(text: string, { ids, unfolded, words, shortIds }: ScanWish): Token[] {
  const urls = [...Iterator.from(addressesIn(text)).take(MOST_TOKENS)];
  const outside = blankOut(text, urls);
  const keys = first(outside.matchAll(KEY)).map(({ 0: found, index }) => ({
    kind: 'key' as const,
    text: found,
    index,
  }));
  const found = ids ? first((unfolded ?? outside).matchAll(ids)) : [];
  const named = found.map(({ 0: id, index }) => ({ kind: 'id' as const, text: id, index }));
  const numbers = first(HAS_NUMBER.test(outside) ? outside.matchAll(NUMBER) : []).map(({ 0: found, index }) => ({
    kind: kindOfNumber(found),
    text: found,
    index,
  }));
  const all = [...urls, ...keys, ...named, ...numbers].sort((left, right) => left.index - right.index);
  const short = shortIds
    ? first(outside.matchAll(SHORT_ID)).map(({ 0: found, index }) => ({
        kind: 'short-id' as const,
        text: found,
        index,
      }))
    : [];
  return [...withWords(text, all, words), ...withWords(text, short, words)];
}

function* addressesIn(text: string): Iterable<Found & { readonly kind: 'url' }> {
  for (const { 0: list, index: start } of text.matchAll(ADDRESSES)) {
    let index = start;
    for (const address of list.split(NEXT_ADDRESS)) {
      if (!NO_MORE_THAN_SCHEME.test(address)) yield { kind: 'url', text: withoutEnd(address), index };
      index += address.length + 1;
    }
  }
}

/** Signs that end sentences and emphasis, and that no id has. */
const ENDINGS = '.,;:!?*~';

function withoutEnd(text: string): string {
  let end = text.length;
  while (end > 0 && ENDINGS.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** More signs than this at the end of a name are no emphasis. */
const MOST_SIGNS = 3;

/**
 * Ids may end in the signs that emphasis and dashes are written with, and only who knows which there are can tell one
 * from the other: all readings of what was found, the longest first.
 */
export function readingsOf(text: string): string[] {
  const readings = [text];
  for (let rest = text; /[_-]$/.test(rest) && readings.length <= MOST_SIGNS; readings.push(rest))
    rest = withoutEnd(rest.slice(0, -1));
  return readings;
}

type Found = Pick<Token, 'kind' | 'text' | 'index'>;

function first(matches: Iterable<RegExpExecArray>): RegExpExecArray[] {
  return [...Iterator.from(matches).take(MOST_TOKENS)];
}

function kindOfNumber(text: string): Token['kind'] {
  if (text.startsWith('#')) return 'number';
  return text.includes('/') ? 'path-number' : 'prefix-number';
}

/** An address names a thing at its host: keys within it are none of ours. */
function blankOut(text: string, found: readonly Found[]): string {
  const pieces: string[] = [];
  let at = 0;
  for (const { index, text: url } of found) {
    pieces.push(text.slice(at, index), ' '.repeat(url.length));
    at = index + url.length;
  }
  return pieces.join('') + text.slice(at);
}

/** Between two names of one list, for example `, ` or ` and `; at most a line break apart. */
const IN_LIST = /^[\])"'*_]{0,3}[ \t]*(?:,[ \t]*(?:and|or|&)?|and|or|&|\+)[ \t]*\n?[ \t]*[[("'*_]{0,3}$/i;
/** Between the text and the address of a Markdown link: both name the same. */
const IN_LINK = /^\]\($/;
const LONGEST_GAP = 24;
const LONGEST_BEFORE = 64;

function withWords(text: string, found: readonly Found[], words: RegExp): Token[] {
  const tokens: Token[] = [];
  for (const each of found) {
    const before = tokens.at(-1);
    const end = before ? before.index + before.text.length : 0;
    const gap = before && each.index - end <= LONGEST_GAP ? text.slice(end, each.index) : undefined;
    if (before && gap !== undefined && IN_LINK.test(gap)) tokens.push({ ...each, ...aboutWord(before) });
    else if (before?.word !== undefined && gap !== undefined && IN_LIST.test(gap))
      tokens.push({ ...each, word: before.word, isFirst: false });
    else tokens.push({ ...each, ...wordBefore(text, each.index, words) });
  }
  return tokens;
}

function aboutWord({ word, isFirst }: Token): Pick<Token, 'word' | 'isFirst'> {
  return word === undefined ? { isFirst } : { word, isFirst };
}

function wordBefore(text: string, index: number, words: RegExp): Pick<Token, 'word' | 'isFirst'> {
  const start = Math.max(0, index - LONGEST_BEFORE);
  // The beginning of the text is a boundary, the beginning of the piece is none.
  const before = (start === 0 ? ' ' : '') + text.slice(start, index);
  const word = words.exec(before)?.[1]?.toLowerCase().replace(/\s+/g, ' ');
  return word === undefined ? { isFirst: false } : { word, isFirst: true };
}

/**
 * Finds one of the words at the end of a text, with what may stand between it and a name. It looks backwards from the end:
 * forwards it would try all words from each place.
 */
export function wordPattern(words: Iterable<string>): RegExp {
  const longestFirst = [...new Set(words)].sort((left, right) => right.length - left.length);
  const alternatives = longestFirst.map((word) => escapePattern(word).replaceAll(' ', '[ \\t]+'));
  const phrase = alternatives.length === 0 ? '(?!)' : alternatives.join('|');
  const between = `(?:[ \\t]*:)?[ \\t]+(?:issues?[ \\t]+)?[#\\["'(*_]{0,3}`;
  return new RegExp(`$(?<=[^\\p{L}\\p{N}_]_{0,3}(${phrase})${between})`, 'iu');
}
