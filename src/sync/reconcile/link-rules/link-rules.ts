// Design: src/decisions/links.md

import type { Grammar, Item, PullRequest } from '../../../model/item.ts';
import { USUAL_ID_PREFIXES } from '../../../model/task.ts';
import { cut } from '../../../model/text-limits.ts';
import { createGlob, createPattern, type PatternText } from '../../../platform/lib/pattern.ts';
import {
  MAX_NAME_LENGTH,
  type NumberSpace,
  nameOf,
  namesOfAddress,
  namesOfToken,
  parseWorkspaceAddress,
  type Reader,
  type RuleName,
  TASK_ID,
  TASK_KEY,
} from './lookup-names.ts';
import {
  foldedPattern,
  idPattern,
  type NameToken,
  type NameWord,
  PLAIN_GRAMMAR,
  readingsOf,
  type ScanOptions,
  scan,
  wordPattern,
  wordsOf,
} from './scan.ts';

/** A task, an item of a tracker, or a document that an item's text names. Whether it exists is not known here. */
export interface Mention {
  /** See `nameOf`. */
  readonly name: string;
  readonly rule: string;
  /** The first place that names it. */
  readonly place: string;
  /** The original text of the match. */
  readonly text: string;
  /** The closing and other keywords in front of it, in all places. */
  readonly words: readonly NameWord[];
}

/** A configured pattern. */
export interface UserPattern {
  readonly pattern: PatternText;
  readonly place?: readonly string[];
  readonly task: string;
  readonly connection?: readonly string[];
}

export interface LinkRulesInput {
  /** Names of trailers, in any case. */
  readonly trailers: readonly string[];
  readonly links: readonly UserPattern[];
  /** The addresses of the workspace's API and pages. */
  readonly addresses: readonly string[];
  /**
   * The grammars of all connections. Their keywords, and the numbers that a host counts over all projects, are
   * understood everywhere.
   */
  readonly grammars: readonly (NumberSpace & { readonly grammar?: Grammar })[];
}

export type LinkRules = ReturnType<typeof createLinkRules>;

/** Names that an item has beyond the limit. */
interface LeftOut extends Pick<Mention, 'rule' | 'place' | 'text'> {
  /** All of them; rule, place and text are those of the first one. */
  readonly names: ReadonlySet<string>;
}

/** Names of tasks, and of other things, that are read from one item. More are a list of something else. */
export const MAX_NAMES = 50;
const MAX_SHOWN_TEXT = 120;
/** Characters of a text that are searched: as many as the workspace accepts, and fewer for configured patterns. */
const MAX_SEARCHED = 200_000;
const MAX_SEARCHED_BY_PATTERNS = 10_000;
/** Messages of commits that are searched. Connectors return at most so many, and bound their total length. */
const MAX_COMMITS = 250;

type CompiledRules = ReturnType<typeof compileRules>;

function compileRules(input: LinkRulesInput) {
  const spaces = input.grammars.map(({ grammar = PLAIN_GRAMMAR, ...space }) => ({ ...space, grammar }));
  const grammars = spaces.map(({ grammar }) => grammar);
  const scanOptions: ScanOptions = {
    words: wordPattern([PLAIN_GRAMMAR, ...grammars].flatMap(wordsOf)),
    shortIds: grammars.some(({ names }) => names.includes('short-id')),
    folded: foldedPattern(grammars),
  };
  return {
    idPrefixes: USUAL_ID_PREFIXES,
    addresses: input.addresses.flatMap((address) => parseWorkspaceAddress(address) ?? []),
    spaces,
    hostNumbers: spaces.filter(({ grammar }) => grammar.names.includes('host-number')),
    trailers: new Set(input.trailers.map((name) => name.toLowerCase())),
    scanOptions,
    patterns: input.links.map(({ pattern, connection, ...rest }) => ({
      ...rest,
      pattern: createPattern(pattern),
      connection: connection?.map(createGlob),
    })),
  };
}

export function createLinkRules(input: LinkRulesInput) {
  const rules = compileRules(input);
  const cache = new WeakMap<Item, { reader: Reader; ids: RegExp | undefined; found: Found }>();
  let compiled: { readonly prefixes: readonly string[]; readonly ids: RegExp | undefined } | undefined;
  function idPatternOf(prefixes: readonly string[]): RegExp | undefined {
    if (compiled?.prefixes.join() !== prefixes.join()) compiled = { prefixes, ids: idPattern(prefixes) };
    return compiled.ids;
  }
  /** @param idPrefixes the prefixes of the ids of the workspace's tasks */
  function find(item: Item, reader: Reader, idPrefixes: readonly string[] = USUAL_ID_PREFIXES): Found {
    const ids = idPatternOf(idPrefixes);
    const cached = cache.get(item);
    if (cached?.reader === reader && cached.ids === ids) return cached.found;
    const scanOptions = { ...rules.scanOptions, ids };
    const found = findMentions(item, reader, { ...rules, idPrefixes, scanOptions });
    cache.set(item, { reader, ids, found });
    return found;
  }
  return {
    /** Returns everything that an item's texts name, each once. Pure. */
    mentionsOf: (...given: Parameters<typeof find>) => find(...given).mentions,
    /** Returns the names beyond the limit, which make no link; undefined if there are none. */
    leftOutOf: (...given: Parameters<typeof find>) => find(...given).leftOut,
    /** Returns the names of the item that a web address leads to. */
    namesOfAddress: (text: string) => namesOfAddress(text, rules.spaces),
  };
}

type Found = ReturnType<MentionCollector['found']>;

/** A text of an item. */
interface ItemText {
  readonly place: 'branch' | 'title' | 'trailer' | 'description' | 'commit';
  readonly original: string;
  /** The text in the form that is searched, of the same length. */
  readonly searched: string;
}

function findMentions(item: Item, reader: Reader, rules: CompiledRules): Found {
  const mentions = new MentionCollector();
  for (const text of textsOf(item, rules)) {
    for (const token of scan(text.searched, scanOptionsOf(text, rules))) {
      for (const name of namesOfToken(token, text.place, item, reader, rules)) mentions.add(name, text, token);
    }
    if (text.place === 'trailer') addTrailerIds(text, mentions);
  }
  if (item.kind === 'pull_request') addBranchNumber(item, reader, mentions);
  addPatternMatches(item, reader, rules, mentions);
  return mentions.found();
}

/**
 * Returns the options for a text. Ids keep their case, so a text that is folded for keys is searched for ids in its
 * original form.
 */
function scanOptionsOf({ place, original }: ItemText, { scanOptions }: CompiledRules): ScanOptions {
  // The words of a trailer are read one by one: see `addTrailerIds`.
  if (place === 'trailer') return { ...scanOptions, ids: undefined };
  return place === 'branch' ? { ...scanOptions, unfolded: original } : scanOptions;
}

function textsOf(item: Item, { trailers }: Pick<CompiledRules, 'trailers'>): ItemText[] {
  const texts: ItemText[] = [];
  const add = (place: ItemText['place'], text: string | null | undefined, toSearched = (given: string) => given) => {
    const original = text?.slice(0, MAX_SEARCHED);
    if (original) texts.push({ place, original, searched: toSearched(original) });
  };
  // Branch names are often typed in lower case. In prose a key counts only as the workspace writes it.
  if (item.kind === 'pull_request') add('branch', item.headBranch, upperCased);
  add('title', item.title);
  const commits = item.kind === 'pull_request' ? (item.commitMessages ?? []).slice(0, MAX_COMMITS) : [];
  for (const text of [item.description ?? '', ...commits]) {
    for (const line of trailersOf(text, trailers)) add('trailer', line, upperCasedTrailer);
  }
  add('description', item.description, proseOf);
  for (const message of commits) add('commit', message);
  return texts;
}

/** Folds ASCII letters only: the upper case of other letters may be other letters, or several. */
function upperCased(text: string): string {
  return text.replace(/[a-z]+/g, (letters) => letters.toUpperCase());
}

/** Keeps addresses, because their case matters. */
function upperCasedTrailer(line: string): string {
  return line.includes('://') ? line : upperCased(line);
}

const TRAILER = /^([A-Za-z][A-Za-z0-9-]{0,39})[ \t]*:[ \t]*(\S.*)$/;
const MAX_PARAGRAPH = 8_192;

/** Returns the lines of the last paragraph with one of these names, if the paragraph contains only trailers. */
function trailersOf(text: string, names: ReadonlySet<string>): string[] {
  const end = text.slice(-MAX_PARAGRAPH).replaceAll('\r\n', '\n').trimEnd();
  const lines = (end.split(/\n[ \t]*\n/).at(-1) ?? '').split('\n');
  // A line that continues the previous one begins with a space.
  if (!lines.every((line, index) => TRAILER.test(line) || (index > 0 && /^[ \t]/.test(line)))) return [];
  return lines.filter((line) => names.has(TRAILER.exec(line)?.[1]?.toLowerCase() ?? ''));
}

/** Adds the ids of tasks in a trailer. Ids of any form count there, because a trailer contains nothing else. */
function addTrailerIds(text: ItemText, mentions: MentionCollector): void {
  const { original } = text;
  const value = TRAILER.exec(original)?.[2] ?? '';
  const ids = value
    .split(/[\s,;、]+/)
    .flatMap((word) => readingsOf(WORD_WITH_ID.exec(word)?.[1] ?? ''))
    .flatMap((word) => ['', '_', '__', '___'].flatMap((sign) => (word.startsWith(sign) ? word.slice(sign.length) : [])))
    .filter((id) => TASK_ID.test(id) && id.includes('_'))
    .slice(0, MAX_NAMES);
  for (const id of ids)
    mentions.add({ name: nameOf.taskId(id), rule: 'trailer' }, text, { text: id, index: original.indexOf(id) });
}

/** Matches an id with the signs of emphasis, quotes and sentences around it. */
const WORD_WITH_ID =
  /^(?:[^A-Za-z0-9-]{0,8}[^A-Za-z0-9_-])?([A-Za-z0-9_-]{1,80})(?:[^A-Za-z0-9_-][^A-Za-z0-9-]{0,8})?$/;

/** Adds the item whose number the branch name begins with, if the grammar allows that. */
function addBranchNumber(item: PullRequest, { grammar }: Reader, mentions: MentionCollector): void {
  const number = grammar?.branchNumbers ? /^([1-9][0-9]{0,8})-/.exec(item.headBranch ?? '')?.[1] : undefined;
  if (number === undefined) return;
  const branch = item.headBranch as string;
  const name = { name: nameOf.number(item, item.repoId, number), rule: 'item-number' };
  mentions.add(name, { place: 'branch', original: branch, searched: branch }, { text: number, index: 0 });
}

/** Adds the matches of configured patterns. */
function addPatternMatches(item: Item, reader: Reader, rules: CompiledRules, mentions: MentionCollector): void {
  if (rules.patterns.length === 0) return;
  const texts = textsOf(item, rules).filter(({ place }) => place !== 'trailer');
  for (const [index, { pattern, place, task, connection }] of rules.patterns.entries()) {
    if (connection && !connection.some((glob) => glob.test(reader.name))) continue;
    for (const text of texts.filter((each) => place?.includes(each.place) ?? true)) {
      const isMasked = text.place === 'description';
      const searched = (isMasked ? text.searched : text.original).slice(0, MAX_SEARCHED_BY_PATTERNS);
      for (const { groups, index: at } of pattern.all(searched, MAX_NAMES)) {
        const name = nameOfTask(fillGroups(task, groups));
        if (name) mentions.add({ name, rule: `pattern ${index + 1}` }, text, { text: groups[0] ?? '', index: at });
      }
    }
  }
}

function fillGroups(template: string, groups: readonly (string | undefined)[]): string {
  return template.replace(/\$(\d)/g, (_whole, digit: string) => groups[Number(digit)] ?? '').trim();
}

function nameOfTask(text: string): string | undefined {
  if (TASK_KEY.test(text)) return text.toUpperCase();
  return TASK_ID.test(text) ? nameOf.taskId(text) : undefined;
}

/** Collects mentions by name, in the order of the texts. */
class MentionCollector {
  readonly #mentions = new Map<string, Mention & { readonly words: NameWord[] }>();
  readonly #leftOut = new Set<string>();
  #firstLeftOut: Omit<LeftOut, 'names'> | undefined;
  #ofTasks = 0;
  #ofItems = 0;

  add(
    { name, rule }: RuleName,
    { place, original }: ItemText,
    { index, text: { length }, word, isFirst = false }: Pick<NameToken, 'text' | 'index'> & Partial<NameToken>,
  ): void {
    const known = this.#mentions.get(name);
    const words = word === undefined ? [] : [{ word, isFirst }];
    if (known) addWords(known.words, words);
    if (known || name.length > MAX_NAME_LENGTH) return;
    // The match is shown in its original case.
    const text = cut(original.slice(index, index + length), MAX_SHOWN_TEXT);
    if (this.#isFull(rule)) {
      this.#firstLeftOut ??= { rule, place, text };
      this.#leftOut.add(name);
      return;
    }
    this.#mentions.set(name, { name, rule, place, text, words });
  }

  #isFull(rule: string): boolean {
    return rule.startsWith('item-') ? ++this.#ofItems > MAX_NAMES : ++this.#ofTasks > MAX_NAMES;
  }

  found(): { readonly mentions: readonly Mention[]; readonly leftOut: LeftOut | undefined } {
    const leftOut = this.#firstLeftOut && { ...this.#firstLeftOut, names: this.#leftOut };
    return { mentions: [...this.#mentions.values()], leftOut };
  }
}

const MAX_WORDS = 8;

function addWords(known: NameWord[], added: readonly NameWord[]): void {
  for (const each of added) {
    const isKnown = known.some(({ word, isFirst }) => word === each.word && isFirst === each.isFirst);
    if (!isKnown && known.length < MAX_WORDS) known.push(each);
  }
}

/**
 * Replaces with blanks all parts of a Markdown text that are not its author's own prose: fenced and inline code,
 * quotes, HTML comments. The length stays the same, so that a position in the result is the same position in the text.
 * Takes one pass for each kind, for any text.
 */
export function proseOf(markdown: string): string {
  return withoutInlineCode(withoutElements(withoutComments(withoutBlocks(markdown))));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const QUOTE = /^ {0,3}>/;

/** Blanks fenced code, even if the fence is never closed, and quoted lines. */
function withoutBlocks(markdown: string): string {
  let fence: string | undefined;
  return markdown
    .split('\n')
    .map((line) => {
      const mark = FENCE.exec(line)?.[1];
      if (fence !== undefined) {
        if (mark?.startsWith(fence) && line.trim() === mark) fence = undefined;
        return blank(line);
      }
      fence = mark;
      return mark !== undefined || QUOTE.test(line) ? blank(line) : line;
    })
    .join('\n');
}

function withoutComments(text: string): string {
  const pieces: string[] = [];
  let at = 0;
  for (let start = text.indexOf('<!--'); start !== -1; start = text.indexOf('<!--', at)) {
    const close = text.indexOf('-->', start + 4);
    const end = close === -1 ? text.length : close + 3;
    pieces.push(text.slice(at, start), blank(text.slice(start, end)));
    at = end;
  }
  return pieces.join('') + text.slice(at);
}

const TAG = /<(\/?)(?:blockquote|pre|code)\b[^<>]{0,200}>/gi;

/** Blanks code and quotes that are written as HTML, at any nesting. */
function withoutElements(text: string): string {
  const pieces: string[] = [];
  let at = 0;
  let depth = 0;
  for (const { 0: tag, 1: slash, index } of text.matchAll(TAG)) {
    if (slash === '') {
      if (depth++ > 0) continue;
      pieces.push(text.slice(at, index));
      at = index;
    } else if (depth > 0 && --depth === 0) {
      const end = index + tag.length;
      pieces.push(blank(text.slice(at, end)));
      at = end;
    }
  }
  const rest = text.slice(at);
  return pieces.join('') + (depth > 0 ? blank(rest) : rest);
}

/**
 * Blanks inline code: a run of backticks opens a span, and the next run of the same length in the same paragraph closes
 * it.
 */
function withoutInlineCode(text: string): string {
  return text
    .split(/(\n[ \t]*\n)/)
    .map(withoutSpans)
    .join('');
}

function withoutSpans(paragraph: string): string {
  if (!paragraph.includes('`')) return paragraph;
  const runs = [...paragraph.matchAll(/`+/g)].map(({ 0: { length }, index }) => ({ length, index }));
  const next = nextOfSameLength(runs.map(({ length }) => length));
  const pieces: string[] = [];
  let at = 0;
  for (let run = 0; run < runs.length; ) {
    const close = next[run];
    if (close === undefined) {
      run++;
      continue;
    }
    const { index } = runs[run] as { index: number };
    const { index: from, length } = runs[close] as { index: number; length: number };
    pieces.push(paragraph.slice(at, index), blank(paragraph.slice(index, from + length)));
    at = from + length;
    run = close + 1;
  }
  return pieces.join('') + paragraph.slice(at);
}

function nextOfSameLength(lengths: readonly number[]): (number | undefined)[] {
  const latest = new Map<number, number>();
  const next: (number | undefined)[] = [];
  for (let run = lengths.length - 1; run >= 0; run--) {
    const length = lengths[run] as number;
    next[run] = latest.get(length);
    latest.set(length, run);
  }
  return next;
}

/** Keeps the line breaks. */
function blank(text: string): string {
  return text.replace(/[^\n]/g, ' ');
}
