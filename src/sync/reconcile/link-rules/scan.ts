import type { Grammar, Intent } from '../../../model/item.ts';
import { escapePattern } from '../../../platform/lib/text.ts';

/** A keyword in front of a name. */
export interface NameWord {
  /** In lower case, with single spaces. */
  readonly word: string;
  /** The name is directly behind the word, not further on in its list. */
  readonly isFirst: boolean;
}

/** The grammar of tasks, and of items whose connector contributes none. */
export const PLAIN_GRAMMAR: Grammar = {
  closing: ['close', 'closes', 'closed', 'fix', 'fixes', 'fixed', 'resolve', 'resolves', 'resolved'],
  closes: 'next',
  names: ['key'],
};

/**
 * Returns the intent of a text towards an item that it names; undefined if by the item's grammar the text does not name
 * it.
 */
export function intentOf(grammar: Grammar, words: readonly NameWord[]): Intent | undefined {
  const { closing, mentioning = [], suppressing = [], closes } = grammar;
  if (words.some(({ word }) => suppressing.includes(word))) return undefined;
  if (words.some(({ word, isFirst }) => closing.includes(word) && (isFirst || closes === 'list'))) return 'closes';
  const isNamed = words.some(({ word }) => closing.includes(word) || mentioning.includes(word));
  return isNamed || !grammar.needsWord ? 'mentions' : undefined;
}

export function wordsOf({ closing, mentioning = [], suppressing = [] }: Grammar): readonly string[] {
  return [...closing, ...mentioning, ...suppressing];
}

/**
 * A name in a text, with the keyword in front of it. Which words close, and which names they cover, depends on the
 * grammar of the named item, which is not known yet.
 */
export interface NameToken {
  /** `path-number` is `group/project#12`, `prefix-number` is `AB#12`, `id` has the prefix of task ids. */
  readonly kind: 'key' | 'id' | 'short-id' | 'number' | 'path-number' | 'prefix-number' | 'url';
  /** The searched form: keys are in upper case if the place folds them. For an address the longest reading. */
  readonly text: string;
  readonly index: number;
  /** In lower case, with single spaces. */
  readonly word?: string;
  /** The name is directly behind the word, not further on in its list. */
  readonly isFirst: boolean;
}

/** Excludes packages with a version, such as `bug-1.2.3` and `bug-4.x`. */
const NO_VERSION = String.raw`(?!\.(?:[0-9]|[xX](?![A-Za-z0-9])))`;

/**
 * Matches `BUG-12` and `4U-41`: a word of upper-case letters and digits with at least one letter, a hyphen, a number.
 * No digit and no letter of a cased script may be on either side. Scripts without case are written without spaces
 * around a foreign word, so their letters end a key. The left boundary also keeps matching linear, because a run of
 * letters and digits has one possible start. The patterns below rely on it too.
 */
const KEY = new RegExp(
  String.raw`(?<![\p{Lu}\p{Ll}\p{Lt}\p{Nd}])[0-9]*[A-Z][A-Z0-9]*-[1-9][0-9]{0,8}(?![\p{Lu}\p{Ll}\p{Lt}\p{Nd}])${NO_VERSION}`,
  'gu',
);

/** Creates the pattern of the prefixes that are read in any case, such as `sc` before `-318`. */
export function foldedPattern(grammars: readonly Grammar[]): RegExp | undefined {
  const prefixes = grammars.flatMap(({ names }) => names).filter((form) => /^[a-z]+-$/.test(form));
  if (prefixes.length === 0) return undefined;
  return new RegExp(`(?:${[...new Set(prefixes)].map((prefix) => prefix.slice(0, -1)).join('|')})(?=-[1-9])`, 'gi');
}

/** Creates the pattern of task ids, of at most 64 characters. A match may include text behind the id: see `idsIn`. */
export function idPattern(prefixes: readonly string[]): RegExp | undefined {
  if (prefixes.length === 0) return undefined;
  const before = notBehind(String.raw`\p{Lu}\p{Ll}\p{Lt}\p{Nd}`);
  const beginning = prefixes.map(escapePattern).join('|');
  return new RegExp(String.raw`${before}(?:${beginning})[A-Za-z0-9_-]{1,60}(?![\p{Lu}\p{Ll}\p{Lt}\p{Nd}])`, 'gu');
}

/** Possible ends of an id that are tried. */
const MAX_ID_ENDS = 5;

/**
 * Returns the ids that a text such as `tsk_a1-fix-door` may mean, the longest first. An id may end at the end of the
 * text, and before each of the first hyphens and underscores. Only the cached tasks show which of them exists.
 */
export function idsIn(text: string): string[] {
  const start = text.indexOf('_') + 2;
  const ends = [...text.slice(start).matchAll(/[-_]/g)].slice(0, MAX_ID_ENDS);
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
/** Every number has this. Most texts have no number, and the full pattern costs as much as all others together. */
const HAS_NUMBER = /#[1-9]/;
/** Signs outside ASCII end an address, and so do letters of scripts that are written without spaces. */
const ADDRESSES = /(?<![A-Za-z0-9])https?:\/\/[\w!#$%&*+,\-./:;=?@^~\p{Lu}\p{Ll}\p{Lt}\p{M}\p{Nd}]+/giu;
/**
 * Separates the addresses of a list without spaces. A pattern of its own, because within the other one it would cost a
 * stack.
 */
const NEXT_ADDRESS = /[,;](?=https?:\/\/)/giu;
const ONLY_SCHEME = /^https?:\/\/$/iu;

/** Returns a boundary on the left. Underscores between a name and the surrounding text are emphasis. */
function notBehind(characters: string): string {
  return `(?<![${characters}])(?<![${characters}]_{1,3})`;
}

function notBefore(characters: string): string {
  return `(?![${characters}]|_{1,3}[${characters}])`;
}

/** Names of one kind that are read from a text. */
const MAX_TOKENS = 5_000;

export interface ScanOptions {
  /** Matches ids of tasks; created by `idPattern`. Absent: ids are not searched. */
  readonly ids?: RegExp | undefined;
  /** The text before its letters were folded, because the case of ids matters. Absent: they were not folded. */
  readonly unfolded?: string;
  /** Matches a keyword at the end of the text before a name; created by `wordPattern`. */
  readonly words: RegExp;
  readonly shortIds: boolean;
  /** Matches the prefixes of keys that are read in any case; created by `foldedPattern`. Absent: there are none. */
  readonly folded?: RegExp | undefined;
}

/** Returns the names in a text, from left to right. Short ids come last, because they may overlap other names. */
export function scan(text: string, { ids, unfolded, words, shortIds, folded }: ScanOptions): NameToken[] {
  const urls = [...Iterator.from(addressesIn(text)).take(MAX_TOKENS)];
  const outside = blankOut(text, urls);
  const foldedKeys = folded ? outside.replace(folded, (prefix) => prefix.toUpperCase()) : outside;
  const keys = found('key', foldedKeys.matchAll(KEY));
  const taskIds = ids ? found('id', (unfolded ?? outside).matchAll(ids)) : [];
  const numbers = HAS_NUMBER.test(outside) ? found(kindOfNumber, outside.matchAll(NUMBER)) : [];
  const all = [...urls, ...keys, ...taskIds, ...numbers].sort((left, right) => left.index - right.index);
  const short = shortIds ? found('short-id', outside.matchAll(SHORT_ID)) : [];
  return [...withWords(text, all, words), ...withWords(text, short, words)];
}

function* addressesIn(text: string): Iterable<FoundName & { readonly kind: 'url' }> {
  for (const { 0: list, index: start } of text.matchAll(ADDRESSES)) {
    let index = start;
    for (const address of list.split(NEXT_ADDRESS)) {
      if (!ONLY_SCHEME.test(address)) yield { kind: 'url', text: withoutEnd(address), index };
      index += address.length + 1;
    }
  }
}

/** Signs that end sentences and emphasis, and that no id contains. */
const ENDINGS = '.,;:!?*~';

function withoutEnd(text: string): string {
  let end = text.length;
  while (end > 0 && ENDINGS.includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** The largest number of emphasis signs at the end of a name. */
const MAX_SIGNS = 3;

/**
 * Returns all readings of a match, the longest first. Ids may end in the signs of emphasis and dashes, and only the
 * existing ids show which reading is right.
 */
export function readingsOf(text: string): string[] {
  const readings = [text];
  for (let rest = text; /[_-]$/.test(rest) && readings.length <= MAX_SIGNS; readings.push(rest))
    rest = withoutEnd(rest.slice(0, -1));
  return readings;
}

type FoundName = Pick<NameToken, 'kind' | 'text' | 'index'>;

function found(
  kind: NameToken['kind'] | ((text: string) => NameToken['kind']),
  matches: Iterable<RegExpExecArray>,
): FoundName[] {
  return [...Iterator.from(matches).take(MAX_TOKENS)].map(({ 0: text, index }) => ({
    kind: typeof kind === 'function' ? kind(text) : kind,
    text,
    index,
  }));
}

function kindOfNumber(text: string): NameToken['kind'] {
  if (text.startsWith('#')) return 'number';
  return text.includes('/') ? 'path-number' : 'prefix-number';
}

/** Replaces addresses by blanks, because a key within an address is not a key of the workspace. */
function blankOut(text: string, urls: readonly FoundName[]): string {
  const pieces: string[] = [];
  let at = 0;
  for (const { index, text: url } of urls) {
    pieces.push(text.slice(at, index), ' '.repeat(url.length));
    at = index + url.length;
  }
  return pieces.join('') + text.slice(at);
}

/** The text between two names of one list, for example `, ` or ` and `, with at most one line break. */
const IN_LIST = /^[\])"'*_]{0,3}[ \t]*(?:,[ \t]*(?:and|or|&)?|and|or|&|\+)[ \t]*\n?[ \t]*[[("'*_]{0,3}$/i;
/** The signs between the text and the address of a Markdown link, which name the same thing. */
const IN_LINK = /^\]\($/;
const MAX_GAP = 24;
const MAX_WORD_DISTANCE = 64;

/** Adds the keywords. A name in a list has the keyword of the name before it. */
function withWords(text: string, names: readonly FoundName[], words: RegExp): NameToken[] {
  const tokens: NameToken[] = [];
  for (const name of names) {
    const before = tokens.at(-1);
    const end = before ? before.index + before.text.length : 0;
    const gap = before && name.index - end <= MAX_GAP ? text.slice(end, name.index) : undefined;
    if (before && gap !== undefined && IN_LINK.test(gap)) tokens.push({ ...name, ...keywordOf(before) });
    else if (before?.word !== undefined && gap !== undefined && IN_LIST.test(gap))
      tokens.push({ ...name, word: before.word, isFirst: false });
    else tokens.push({ ...name, ...keywordBefore(text, name.index, words) });
  }
  return tokens;
}

function keywordOf({ word, isFirst }: NameToken): Pick<NameToken, 'word' | 'isFirst'> {
  return word === undefined ? { isFirst } : { word, isFirst };
}

function keywordBefore(text: string, index: number, words: RegExp): Pick<NameToken, 'word' | 'isFirst'> {
  const start = Math.max(0, index - MAX_WORD_DISTANCE);
  // The start of the text is a boundary, the start of the slice is not.
  const before = (start === 0 ? ' ' : '') + text.slice(start, index);
  const found = words.exec(before);
  const word = found?.[1]?.toLowerCase().replace(/\s+/g, ' ');
  const isNegated = NEGATION.test(before.slice(0, found?.indices?.[1]?.[0] ?? 0));
  return word === undefined || isNegated ? { isFirst: false } : { word, isFirst: true };
}

/** Matches a negation at the end of the text before a keyword: `does not close BUG-1` only mentions the task. */
const NEGATION = /(?:(?<![\p{L}\p{N}])(?:not|never|cannot)|n['’]t)[ \t]+$/iu;

/**
 * Creates the pattern of a keyword at the end of a text, with the signs that may separate it from a name. It matches
 * backwards from the end, because forwards it would try all words at each position.
 */
export function wordPattern(words: Iterable<string>): RegExp {
  const longestFirst = [...new Set(words)].sort((left, right) => right.length - left.length);
  const alternatives = longestFirst.map((word) => escapePattern(word).replaceAll(' ', '[ \\t]+'));
  const phrase = alternatives.length === 0 ? '(?!)' : alternatives.join('|');
  const between = `(?:[ \\t]*:)?[ \\t]+(?:issues?[ \\t]+)?[#\\["'(*_]{0,3}`;
  return new RegExp(`$(?<=[^\\p{L}\\p{N}_]_{0,3}(${phrase})${between})`, 'diu');
}
