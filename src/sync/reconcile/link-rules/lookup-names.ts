import type { Grammar, Item, PullRequest, WorkItem } from '../../../model/item.ts';
import { escapePattern, withoutEnd } from '../../../platform/lib/text.ts';
import { idsIn, type NameToken, readingsOf } from './scan.ts';

/**
 * The names under which tasks, items and documents are looked up. All share one space. A key is its own name: `BUG-12`,
 * also for an item. Every other name contains a character that no key has.
 */
export const nameOf = {
  taskId: (taskId: string) => `id:${taskId}`,
  document: (documentId: string) => `doc:${documentId}`,
  url: (normal: string) => `url:${normal}`,
  /** A number within a project, which is identified by its id or by the name that people use. */
  number: ({ connector, host }: NumberSpace, project: string, number: string) =>
    `${connector}:${host}:${project.toLowerCase()}#${number}`,
  /** A commit of a repository. Bitbucket shortens hashes to twelve digits. */
  commit: ({ connector, host }: NumberSpace, repository: string, hash: string) =>
    `${connector}:${host}:${repository}@${hash.slice(0, 12)}`,
  /** Stored for an item that names more than worksync reads. */
  leftOut: 'left-out',
  hostNumber: ({ connector, host }: NumberSpace, number: string) => `${connector}:${host}#${number}`,
} as const;

/** The host within which the numbers of items, or of their projects, are unique. */
export interface NumberSpace {
  readonly connector: string;
  readonly host: string;
}

/** How the items of a host are named. */
export type NamedSpace = NumberSpace & { readonly grammar: Grammar };

/** Longer names are not looked up. */
export const MAX_NAME_LENGTH = 512;

const SHORT_ID = /^[A-Za-z0-9][A-Za-z0-9_-]*-[A-Za-z0-9]+$/;

/** Returns the name of a project, repository or team, as it is a part of the names of its items. */
export function placeNameOf({ connector, host }: NumberSpace, container: string): string {
  return `${connector}:${host}:${container.toLowerCase()}`;
}

/**
 * Returns the names of a work item, each with the place whose name is a part of it. A container that takes over the
 * name of a place also takes over these names.
 */
export function placedNamesOf(item: WorkItem, grammar: Grammar) {
  const { containerId: container, containerName } = item;
  const lowerContainer = containerName?.toLowerCase();
  return namesOfItem(item, grammar).map((name) => {
    const isPlaced = lowerContainer !== undefined && name.toLowerCase().includes(lowerContainer);
    return isPlaced
      ? { name, place: placeNameOf(item, lowerContainer), container }
      : { name, place: null, container: null };
  });
}

/** Returns the names that a work item had under its former identifiers. */
export function formerNamesOf(item: WorkItem, grammar: Grammar): readonly string[] {
  return (item.formerIdentifiers ?? []).flatMap((identifier) => {
    const url = item.url?.endsWith(`/${item.identifier}`)
      ? item.url.slice(0, -item.identifier.length) + identifier
      : undefined;
    return namesOfItem({ ...item, identifier, url } as WorkItem, grammar);
  });
}

/** Returns all names of a work item. */
export function namesOfItem(item: WorkItem, grammar: Grammar): string[] {
  const names = new Set<string>();
  if (item.url !== undefined) for (const name of namesOfAddress(item.url, [{ ...item, grammar }])) names.add(name);
  const { identifier } = item;
  const number = /(?<![0-9])0*([1-9][0-9]*)$/.exec(identifier)?.[1];
  for (const form of grammar.names) {
    if (form === 'key' || form === 'short-id' || form.endsWith('-')) {
      if (SHORT_ID.test(identifier)) names.add(identifier.toUpperCase());
    } else if (number === undefined) continue;
    else if (form === 'number') {
      names.add(nameOf.number(item, item.containerId, number));
      if (item.containerName !== undefined) names.add(nameOf.number(item, item.containerName, number));
    } else if (form === 'host-number') names.add(nameOf.hostNumber(item, number));
    else names.add(form + number);
  }
  return [...names].filter((name) => name.length <= MAX_NAME_LENGTH);
}

/** Returns host and path, which identify a page. Undefined if the text is not a web address. */
export function normalUrl(text: string): string | undefined {
  const url = text.length <= 2_048 ? URL.parse(text) : null;
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return undefined;
  return `${url.host}${withoutEnd(url.pathname, '/')}`;
}

/** A name to look up, and the rule that found it. */
export interface RuleName {
  readonly name: string;
  readonly rule: string;
}

/** The connection whose grammar the text of an item is read by. */
export interface Reader {
  readonly name: string;
  readonly grammar?: Grammar;
}

/** The configuration that gives a token its names. */
export interface NameConfig {
  /** The prefixes of the ids of the workspace's tasks. */
  readonly idPrefixes: readonly string[];
  readonly addresses: readonly WorkspaceAddress[];
  /** All hosts whose items may be named. */
  readonly spaces: readonly NamedSpace[];
  /** The hosts among them on which `#12` is unique over all projects. */
  readonly hostNumbers: readonly NumberSpace[];
}

export const TASK_KEY = /^[A-Za-z][A-Za-z0-9]*-[1-9][0-9]{0,8}$/;
export const TASK_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Returns the names that a token may mean. Only pull requests name items of trackers. */
export function namesOfToken(
  token: NameToken,
  place: string,
  item: Item,
  reader: Reader,
  config: NameConfig,
): RuleName[] {
  const isPull = item.kind === 'pull_request';
  switch (token.kind) {
    case 'key': {
      const key = { name: token.text, rule: place === 'trailer' ? 'trailer' : 'task-key' };
      return isPull ? [key, ...namesOfPrefixed(token.text, item, reader)] : [key];
    }
    case 'id':
      return idsIn(token.text)
        .filter((id) => TASK_ID.test(id))
        .map((id) => ({ name: nameOf.taskId(id), rule: 'task-id' }));
    case 'url':
      return readingsOf(token.text).flatMap((text) => namesOfUrl(text, item, config));
    case 'short-id':
      return isPull && token.word !== undefined ? [{ name: token.text, rule: 'item-key' }] : [];
    case 'prefix-number':
      return isPull ? [{ name: token.text, rule: 'item-number' }] : [];
    default:
      return isPull ? namesOfNumber(token, item, reader, config) : [];
  }
}

/** Returns the item of the same project that a key such as `GH-12` names. */
function namesOfPrefixed(key: string, item: PullRequest, { grammar }: Reader): RuleName[] {
  const isNumber = grammar?.names.includes('number') && grammar.names.some((form) => key === form + numberOf(key));
  return isNumber ? [{ name: nameOf.number(item, item.repoId, numberOf(key)), rule: 'item-number' }] : [];
}

function numberOf(key: string): string {
  return key.slice(key.lastIndexOf('-') + 1);
}

/**
 * Returns the names of `#12`: an item of the same project, and, behind a keyword, an item of a host that counts over
 * all projects.
 */
function namesOfNumber(token: NameToken, item: PullRequest, { grammar }: Reader, config: NameConfig): RuleName[] {
  const at = token.text.lastIndexOf('#');
  const [path, number] = [token.text.slice(0, at), token.text.slice(at + 1)];
  const names: string[] = [];
  // A path may begin with the underscores of emphasis.
  const projects = path === '' ? [item.repoId] : [...new Set([path, path.replace(/^_{1,3}/, '')])];
  if (grammar?.names.includes('number')) names.push(...projects.map((project) => nameOf.number(item, project, number)));
  if (path === '' && token.word !== undefined)
    names.push(...config.hostNumbers.map((space) => nameOf.hostNumber(space, number)));
  return names.map((name) => ({ name, rule: 'item-number' }));
}

function namesOfUrl(text: string, item: Item, config: NameConfig): RuleName[] {
  if (normalUrl(text) === undefined) return [];
  for (const address of config.addresses) {
    const path = pathWithin(address, text);
    if (path) return namesOfWorkspacePath(path, config.idPrefixes);
  }
  if (item.kind !== 'pull_request') return [];
  return namesOfAddress(text, config.spaces).map((name) => ({ name, rule: 'item-url' }));
}

/** Returns the names of a web address: of the page itself, and of the item that the address leads to in any spelling. */
export function namesOfAddress(text: string, spaces: readonly NamedSpace[]): string[] {
  const url = normalUrl(text);
  if (url === undefined) return [];
  const spelled = spaces.flatMap((space) =>
    readAddress(space.grammar, space.host, { url, text }).flatMap(({ url: first, path, number }) => [
      nameOf.url(first),
      ...(path === undefined || number === undefined ? [] : [nameOf.number(space, path, number)]),
    ]),
  );
  return [...new Set([nameOf.url(url), ...spelled])];
}

/**
 * Returns the name of an address of the workspace. A key, or an id with a known prefix, is a task in any segment. Any
 * other id is a task behind `tasks`, and a document behind `documents`.
 */
function namesOfWorkspacePath(path: readonly string[], idPrefixes: readonly string[]): RuleName[] {
  const idBehind = (words: readonly string[]) => {
    const at = path.findIndex((segment) => words.includes(segment));
    const id = at === -1 ? undefined : path[at + 1];
    return id !== undefined && TASK_ID.test(id) ? id : undefined;
  };
  const document = idBehind(['documents', 'document', 'docs']);
  if (document !== undefined) return [{ name: nameOf.document(document), rule: 'document-url' }];
  const isId = (segment: string) => TASK_ID.test(segment) && idPrefixes.some((prefix) => segment.startsWith(prefix));
  const task = idBehind(['tasks', 'task']) ?? path.find(isId);
  const key = [task, ...path].find((segment) => segment !== undefined && TASK_KEY.test(segment));
  if (key !== undefined && (task === undefined || TASK_KEY.test(task)))
    return [{ name: key.toUpperCase(), rule: 'task-url' }];
  return task === undefined ? [] : [{ name: nameOf.taskId(task), rule: 'task-url' }];
}

type WorkspaceAddress = NonNullable<ReturnType<typeof parseWorkspaceAddress>>;

/** Returns the host of the workspace's API or pages, and the segments that all its addresses begin with. */
export function parseWorkspaceAddress(text: string) {
  const url = URL.parse(text);
  return url === null ? undefined : { host: url.host, path: segmentsOf(url.pathname) };
}

/** Returns the segments behind the workspace's own, and its parameters. Undefined for an address elsewhere. */
function pathWithin({ host, path }: WorkspaceAddress, text: string): readonly string[] | undefined {
  const url = URL.parse(text);
  if (url?.host !== host) return undefined;
  const segments = segmentsOf(url.pathname);
  if (!path.every((segment, index) => segments[index] === segment)) return undefined;
  const task = url.searchParams.get('task') ?? url.searchParams.get('taskId');
  return [...segments.slice(path.length), ...(task === null ? [] : ['task', task])];
}

const MAX_SEGMENTS = 30;

function segmentsOf(path: string): string[] {
  return path
    .split('/', MAX_SEGMENTS)
    .filter((segment) => segment !== '')
    .map((segment) => {
      try {
        return decodeURIComponent(segment);
      } catch {
        return segment;
      }
    });
}

const compiled = new WeakMap<Grammar, Map<string, ReturnType<typeof compile>>>();

/**
 * Reads an address by the forms of a connection.
 *
 * @param url host and path of the address
 * @param text the whole address
 * @param host the connection's own host
 */
function readAddress(grammar: Grammar, host: string, { url, text }: { url: string; text: string }) {
  const byHost = compiled.get(grammar) ?? new Map<string, ReturnType<typeof compile>>();
  compiled.set(grammar, byHost);
  const forms = byHost.get(host) ?? (grammar.addresses ?? []).flatMap((spellings) => compile(spellings, host));
  byHost.set(host, forms);
  const found = new Map<string, ReturnType<typeof fill>>();
  for (const { pattern, parameter, firstSpelling } of forms) {
    const parts = pattern.exec(url)?.groups;
    if (parts === undefined) continue;
    const inQuery = parameter?.value.exec(parameterOf(text, parameter.name) ?? '')?.groups;
    if (parameter && inQuery === undefined) continue;
    const read = fill(firstSpelling, { ...parts, ...inQuery });
    found.set(read.url, read);
  }
  return [...found.values()];
}

function parameterOf(text: string, name: string): string | null | undefined {
  return URL.parse(text)?.searchParams.get(name);
}

/**
 * Returns host and path of the first spelling, and the project's path and the item's number, if the form has both. Folds the
 * case of all parts but a project's path, because vendors ignore it there.
 */
function fill(spelling: string, parts: Readonly<Record<string, string | undefined>>) {
  const url = spelling.slice(2).replaceAll(PART, (_part, name: string) => {
    const value = parts[name] ?? '';
    if (name === 'path') return value;
    return name === 'key' ? value.toUpperCase() : value.toLowerCase();
  });
  return { url, path: parts['path'], number: parts['number'] };
}

const PART = /\{(\w+)\}/g;

const PATTERNS: Readonly<Record<string, string>> = {
  number: '[1-9][0-9]{0,18}',
  key: '[A-Za-z0-9_]{1,60}-[1-9][0-9]{0,8}',
  path: '[^/]+(?:/[^/]+)*',
  site: '[^/]+',
};

/**
 * Compiles the spellings of an address: see `Grammar.addresses`. Each part of a pattern ends at a slash, so that matching takes
 * linear time.
 */
function compile(spellings: readonly string[], host: string) {
  const firstSpelling = spellings[0] as string;
  return spellings.map((spelling) => {
    const [address = '', query] = spelling.slice(2).split('?');
    const [name = '', value = ''] = query?.split('=') ?? [];
    return {
      pattern: new RegExp(`^${sourceOf(address, host)}$`, 'u'),
      parameter: query === undefined ? undefined : { name, value: new RegExp(`^${sourceOf(value, host)}$`, 'u') },
      firstSpelling,
    };
  });
}

function sourceOf(text: string, host: string): string {
  return text
    .split(/(\{\w+\}|\/…)/)
    .map((part) => {
      if (part === '/…') return '(?:/[^/]+)*';
      const name = /^\{(\w+)\}$/.exec(part)?.[1];
      if (name === undefined) return escapePattern(part);
      const pattern = name === 'host' ? `${escapePattern(host)}(?::[0-9]+)?` : (PATTERNS[name] ?? '[^/.]+');
      return `(?<${name}>${pattern})`;
    })
    .join('');
}
