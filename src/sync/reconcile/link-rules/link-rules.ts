// Design: src/decisions/links.md

import type { Item, PullRequest } from '../../../model/item.ts';
import type { Grammar } from '../../../model/link.ts';
import { USUAL_ID_PREFIXES } from '../../../model/task.ts';
import { cut } from '../../../model/text-limits.ts';
import { createGlob, createPattern, type Pattern, type PatternText } from '../../../platform/lib/pattern.ts';
import { PLAIN, type Word, wordsOf } from './intent.ts';
import { LONGEST_NAME, nameOf, normalUrl, type Place } from './item-names-of.ts';
import { proseOf } from './prose.ts';
import { idPattern, idsIn, readingsOf, type ScanWish, scan, type Token, wordPattern } from './scan.ts';
import { type Address, addressOf, pathOf } from './workspace-address.ts';

/** Something that an item's text names: a task, an item of a tracker, or a document. Whether it exists is not known here. */
export interface Mention {
  /** See `nameOf`. */
  readonly name: string;
  readonly rule: string;
  /** The first place that names it. */
  readonly place: string;
  /** The text that matched, as it stood. */
  readonly text: string;
  /** The closing and other words before it, in all places. */
  readonly words: readonly Word[];
}

/** A pattern of the configuration. */
export interface UserPattern {
  readonly pattern: PatternText;
  readonly place?: readonly string[];
  readonly task: string;
  readonly connection?: readonly string[];
}

export interface LinkRulesInput {
  /** Names of trailers, any case. */
  readonly trailers: readonly string[];
  readonly links: readonly UserPattern[];
  /** Where the workspace's API and pages are. */
  readonly addresses: readonly string[];
  /** Of all connections: their words are understood everywhere, and what is counted over a whole host. */
  readonly grammars: readonly (Place & { readonly grammar?: Grammar })[];
}

/** The text of whom is read, beside the item itself. */
export interface Reader {
  readonly connection: string;
  readonly grammar?: Grammar;
}

export interface LinkRules {
  /**
   * Pure. All that an item's texts name, each once.
   *
   * @param idPrefixes the beginnings of the ids of the workspace's tasks; absent: the usual ones
   */
  mentionsOf(item: Item, reader: Reader, idPrefixes?: readonly string[]): readonly Mention[];
}

/** More names than this of one sort in one item are a list of something else. */
const MOST_NAMES = 50;
const LONGEST_SHOWN = 120;
/** Characters of a text that are searched: as many as the workspace itself would hold, and fewer for own patterns. */
const LONGEST_SEARCHED = 200_000;
const LONGEST_FOR_PATTERNS = 10_000;
/** As many as connectors bring; the length of all messages together is bounded there. */
const MOST_COMMITS = 250;

export function createLinkRules(input: LinkRulesInput): LinkRules {
  const grammars = input.grammars.map(({ grammar = PLAIN }) => grammar);
  const shared: Shared = {
    idPrefixes: USUAL_ID_PREFIXES,
    addresses: input.addresses.flatMap((address) => addressOf(address) ?? []),
    hostNumbers: input.grammars.filter(({ grammar }) => grammar?.names.includes('host-number')),
    trailers: new Set(input.trailers.map((name) => name.toLowerCase())),
    wish: {
      words: wordPattern([PLAIN, ...grammars].flatMap(wordsOf)),
      shortIds: grammars.some(({ names }) => names.includes('short-id')),
    },
    patterns: input.links.map(({ pattern, connection, ...rest }) => ({
      ...rest,
      pattern: createPattern(pattern),
      connection: connection?.map(createGlob),
    })),
  };
  const read = new WeakMap<
    Item,
    { readonly reader: Reader; readonly ids: RegExp | undefined; readonly mentions: readonly Mention[] }
  >();
  let compiled: { readonly prefixes: readonly string[]; readonly ids: RegExp | undefined } | undefined;
  function patternOf(prefixes: readonly string[]): RegExp | undefined {
    if (compiled?.prefixes.join() !== prefixes.join()) compiled = { prefixes, ids: idPattern(prefixes) };
    return compiled.ids;
  }
  return {
    mentionsOf(item, reader, idPrefixes = USUAL_ID_PREFIXES) {
      const ids = patternOf(idPrefixes);
      const before = read.get(item);
      if (before?.reader === reader && before.ids === ids) return before.mentions;
      const mentions = gather(item, reader, { ...shared, idPrefixes, wish: { ...shared.wish, ids } });
      read.set(item, { reader, ids, mentions });
      return mentions;
    },
  };
}

interface Shared {
  readonly idPrefixes: readonly string[];
  readonly addresses: readonly Address[];
  readonly hostNumbers: readonly Place[];
  readonly trailers: ReadonlySet<string>;
  readonly wish: ScanWish;
  readonly patterns: readonly {
    readonly pattern: Pattern;
    readonly place?: readonly string[];
    readonly task: string;
    readonly connection?: readonly Pattern[];
  }[];
}

/** A text of an item. */
interface Source {
  readonly place: 'branch' | 'title' | 'trailer' | 'description' | 'commit';
  /** As it stands. */
  readonly text: string;
  /** As it is searched: of the same length. */
  readonly searched: string;
}

function gather(item: Item, reader: Reader, shared: Shared): Mention[] {
  const found = new Found();
  for (const source of sourcesOf(item, shared)) {
    for (const token of scan(source.searched, scanWishOf(source, shared))) {
      for (const named of namesOf(token, source, { item, reader, shared })) found.add(named, source, token);
    }
    if (source.place === 'trailer') for (const id of idsOf(source)) found.add(id.named, source, id);
  }
  if (item.kind === 'pull_request') branchNumber(item, reader, found);
  ownPatterns(item, reader, shared, found);
  return found.mentions();
}

/** Ids keep their case: a place whose letters are folded for keys is searched for ids as it stands. */
function scanWishOf({ place, text }: Source, { wish }: Shared): ScanWish {
  // The words of a trailer are read one by one: see `idsOf`.
  if (place === 'trailer') return { ...wish, ids: undefined };
  return place === 'branch' ? { ...wish, unfolded: text } : wish;
}

function sourcesOf(item: Item, { trailers }: Shared): Source[] {
  const sources: Source[] = [];
  const add = (place: Source['place'], text: string | null | undefined, search = (given: string) => given) => {
    const within = text?.slice(0, LONGEST_SEARCHED);
    if (within) sources.push({ place, text: within, searched: search(within) });
  };
  // Branch names are often typed in lower case; in prose only the key as the workspace writes it counts.
  if (item.kind === 'pull_request') add('branch', item.headBranch, upperCased);
  add('title', item.title);
  const commits = item.kind === 'pull_request' ? (item.commitMessages ?? []).slice(0, MOST_COMMITS) : [];
  for (const text of [item.description ?? '', ...commits]) {
    for (const line of trailersOf(text, trailers)) add('trailer', line, upperCasedValue);
  }
  add('description', item.description, proseOf);
  for (const message of commits) add('commit', message);
  return sources;
}

/** Only letters of ASCII: others would become other letters, or more of them. */
function upperCased(text: string): string {
  return text.replace(/[a-z]+/g, (letters) => letters.toUpperCase());
}

/** Addresses stay as they are: case matters in them. */
function upperCasedValue(line: string): string {
  return line.includes('://') ? line : upperCased(line);
}

const TRAILER = /^([A-Za-z][A-Za-z0-9-]{0,39})[ \t]*:[ \t]*(\S.*)$/;
const LONGEST_PARAGRAPH = 8_192;

/** The lines of the last paragraph that have one of these names, where it holds nothing but such lines. */
function trailersOf(text: string, names: ReadonlySet<string>): string[] {
  const end = text.slice(-LONGEST_PARAGRAPH).replaceAll('\r\n', '\n').trimEnd();
  const lines = (end.split(/\n[ \t]*\n/).at(-1) ?? '').split('\n');
  // A line that goes on begins with a space.
  if (!lines.every((line, at) => TRAILER.test(line) || (at > 0 && /^[ \t]/.test(line)))) return [];
  return lines.filter((line) => names.has(TRAILER.exec(line)?.[1]?.toLowerCase() ?? ''));
}

/** A name to look up, and the rule that says so. */
interface Named {
  readonly name: string;
  readonly rule: string;
}

interface Circumstances {
  readonly item: Item;
  readonly reader: Reader;
  readonly shared: Shared;
}

function namesOf(token: Token, { place }: Source, around: Circumstances): Named[] {
  const isPull = around.item.kind === 'pull_request';
  switch (token.kind) {
    case 'key':
      return [{ name: token.text, rule: place === 'trailer' ? 'trailer' : 'task-key' }];
    case 'id':
      return idsIn(token.text)
        .filter((id) => ID.test(id))
        .map((id) => ({ name: nameOf.taskId(id), rule: 'task-id' }));
    case 'url':
      return readingsOf(token.text).flatMap((text) => namesOfUrl(text, around));
    case 'short-id':
      return isPull && token.word !== undefined ? [{ name: token.text, rule: 'item-key' }] : [];
    case 'prefix-number':
      return isPull ? [{ name: token.text, rule: 'item-number' }] : [];
    default:
      return isPull ? namesOfNumber(token, around.item as PullRequest, around) : [];
  }
}

/** `#12` is of the same project, and, behind a word, of what counts over its whole host. */
function namesOfNumber(token: Token, item: PullRequest, { reader, shared }: Circumstances): Named[] {
  const at = token.text.lastIndexOf('#');
  const [path, number] = [token.text.slice(0, at), token.text.slice(at + 1)];
  const names: string[] = [];
  // A path may begin with the underscores of emphasis.
  const paths = path === '' ? [item.repoId] : [...new Set([path, path.replace(/^_{1,3}/, '')])];
  if (reader.grammar?.names.includes('number'))
    names.push(...paths.map((project) => nameOf.number(item, project, number)));
  if (path === '' && token.word !== undefined)
    names.push(...shared.hostNumbers.map((place) => nameOf.hostNumber(place, number)));
  return names.map((name) => ({ name, rule: 'item-number' }));
}

function namesOfUrl(text: string, { item, reader, shared }: Circumstances): Named[] {
  const url = normalUrl(text);
  if (url === undefined) return [];
  for (const address of shared.addresses) {
    const path = pathOf(text, address);
    if (path) return namesBelow(path, shared.idPrefixes);
  }
  if (item.kind !== 'pull_request') return [];
  const untitled = TITLED.exec(url)?.[1];
  const names = [nameOf.url(url), ...(untitled === undefined ? [] : [nameOf.url(untitled)])];
  return [...names, ...numbersOfUrl(url, item, reader)].map((name) => ({ name, rule: 'item-url' }));
}

/** Behind an item's key its title may follow, which changes: `/issue/ENG-12/the-title`. */
const TITLED = /^(.+\/[A-Z0-9]+-[1-9][0-9]{0,8})\/[^/]+$/;

const KEY = /^[A-Za-z][A-Za-z0-9]*-[1-9][0-9]{0,8}$/;
const ID = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Below the workspace's own addresses: a task by its key or by an id of the usual form anywhere, by any other id behind
 * `tasks`; a document likewise.
 */
function namesBelow(path: readonly string[], idPrefixes: readonly string[]): Named[] {
  const behind = (words: readonly string[]) => {
    const at = path.findIndex((segment) => words.includes(segment));
    const id = at === -1 ? undefined : path[at + 1];
    return id !== undefined && ID.test(id) ? id : undefined;
  };
  const document = behind(['documents', 'document', 'docs']);
  if (document !== undefined) return [{ name: nameOf.document(document), rule: 'document-url' }];
  const isId = (segment: string) => ID.test(segment) && idPrefixes.some((prefix) => segment.startsWith(prefix));
  const task = behind(['tasks', 'task']) ?? path.find(isId);
  const key = [task, ...path].find((segment) => segment !== undefined && KEY.test(segment));
  if (key !== undefined && (task === undefined || KEY.test(task)))
    return [{ name: key.toUpperCase(), rule: 'task-url' }];
  return task === undefined ? [] : [{ name: nameOf.taskId(task), rule: 'task-url' }];
}

/** The address of an item on the pull request's own host, however else its address may be spelled. */
function numbersOfUrl(url: string, item: PullRequest, { grammar }: Reader): string[] {
  const own = item.url === undefined ? undefined : normalUrl(item.url)?.split('/')[0];
  const [host, ...rest] = url.split('/');
  if (own === undefined || host !== own) return [];
  const path = `/${rest.join('/')}`;
  for (const between of grammar?.itemPaths ?? []) {
    const at = path.lastIndexOf(between);
    const number = at === -1 ? '' : path.slice(at + between.length);
    if (at > 0 && /^[1-9][0-9]{0,8}$/.test(number)) return [nameOf.number(item, path.slice(1, at), number)];
  }
  return [];
}

/** Ids of tasks in a trailer: they look like no other word, so only there they stand for themselves. */
function idsOf({ text }: Source): { readonly named: Named; readonly text: string; readonly index: number }[] {
  const value = TRAILER.exec(text)?.[2] ?? '';
  return value
    .split(/[\s,;、]+/)
    .flatMap((word) => readingsOf(WORD_OF_ID.exec(word)?.[1] ?? ''))
    .flatMap((word) => ['', '_', '__', '___'].flatMap((sign) => (word.startsWith(sign) ? word.slice(sign.length) : [])))
    .filter((word) => ID.test(word) && word.includes('_'))
    .slice(0, MOST_NAMES)
    .map((word) => ({ named: { name: nameOf.taskId(word), rule: 'trailer' }, text: word, index: text.indexOf(word) }));
}

/** An id, with what emphasis, quotes and sentences put around it. */
const WORD_OF_ID = /^(?:[^A-Za-z0-9-]{0,8}[^A-Za-z0-9_-])?([A-Za-z0-9_-]{1,80})(?:[^A-Za-z0-9_-][^A-Za-z0-9-]{0,8})?$/;

function branchNumber(item: PullRequest, { grammar }: Reader, found: Found): void {
  const number = grammar?.branchNumbers ? /^([1-9][0-9]{0,8})-/.exec(item.headBranch ?? '')?.[1] : undefined;
  if (number === undefined) return;
  const text = item.headBranch as string;
  const named = { name: nameOf.number(item, item.repoId, number), rule: 'item-number' };
  found.add(named, { place: 'branch', text, searched: text }, { text: number, index: 0 });
}

function ownPatterns(item: Item, reader: Reader, shared: Shared, found: Found): void {
  if (shared.patterns.length === 0) return;
  const texts = sourcesOf(item, shared).filter(({ place }) => place !== 'trailer');
  for (const [at, { pattern, place, task, connection }] of shared.patterns.entries()) {
    if (connection && !connection.some((glob) => glob.test(reader.connection))) continue;
    for (const source of texts.filter((each) => place?.includes(each.place) ?? true)) {
      const isMasked = source.place === 'description';
      const text = (isMasked ? source.searched : source.text).slice(0, LONGEST_FOR_PATTERNS);
      for (const { groups, index } of pattern.all(text, MOST_NAMES)) {
        const name = nameOfTask(fill(task, groups));
        if (name) found.add({ name, rule: `pattern ${at + 1}` }, source, { text: groups[0] ?? '', index });
      }
    }
  }
}

function fill(template: string, groups: readonly (string | undefined)[]): string {
  return template.replace(/\$(\d)/g, (_whole, digit: string) => groups[Number(digit)] ?? '').trim();
}

function nameOfTask(text: string): string | undefined {
  if (KEY.test(text)) return text.toUpperCase();
  return ID.test(text) ? nameOf.taskId(text) : undefined;
}

/** What was found so far, by name, in the order of the places. */
class Found {
  readonly #mentions = new Map<string, Mention & { readonly words: Word[] }>();
  #ofTasks = 0;
  #others = 0;

  add(
    { name, rule }: Named,
    { place, text }: Source,
    { index, text: { length }, word, isFirst = false }: Pick<Token, 'text' | 'index'> & Partial<Token>,
  ): void {
    const known = this.#mentions.get(name);
    const words = word === undefined ? [] : [{ word, isFirst }];
    if (known) addWords(known.words, words);
    if (known || name.length > LONGEST_NAME || this.#isFull(rule)) return;
    // What the search folded is shown as it stood.
    this.#mentions.set(name, { name, rule, place, text: cut(text.slice(index, index + length), LONGEST_SHOWN), words });
  }

  #isFull(rule: string): boolean {
    return rule.startsWith('item-') ? ++this.#others > MOST_NAMES : ++this.#ofTasks > MOST_NAMES;
  }

  mentions(): Mention[] {
    return [...this.#mentions.values()];
  }
}

const MOST_WORDS = 8;

function addWords(known: Word[], added: readonly Word[]): void {
  for (const each of added) {
    const isKnown = known.some(({ word, isFirst }) => word === each.word && isFirst === each.isFirst);
    if (!isKnown && known.length < MOST_WORDS) known.push(each);
  }
}
