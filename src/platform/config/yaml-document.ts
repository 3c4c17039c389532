import * as yaml from 'yaml';
import { SyncError } from '../../model/errors.ts';
import { interpolate, literalSecrets, type Variables } from './interpolate.ts';

/** Something that is wrong at a place of a file. Lines and columns count from 1. */
export interface Problem extends Place {
  readonly message: string;
  /** The name that was probably intended. */
  readonly suggestion?: string | undefined;
}

interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The keys whose entries are rules. */
const RULES: ReadonlySet<string> = new Set(['rules.links', 'rules.triage', 'rules.workflow.rules']);

/** Returns the name of a key for people: `rule 2 of rules.triage: create`. Entries of lists count from 1. */
export function pathText(path: readonly PropertyKey[]): string {
  const at = path.findIndex((key) => typeof key === 'number');
  const list = path.slice(0, at).join('.');
  if (at < 0 || !RULES.has(list)) return keyText(path);
  const rule = `rule ${Number(path[at]) + 1} of ${list.replace(/\.rules$/, '')}`;
  return [rule, ...(path.length > at + 1 ? [keyText(path.slice(at + 1))] : [])].join(': ');
}

function keyText(path: readonly PropertyKey[]): string {
  return path
    .map((key, at) => (typeof key === 'number' ? `#${key + 1}` : `${at > 0 ? '.' : ''}${String(key)}`))
    .join('');
}

/** Number of problems after which the search in a file stops: people correct those first. */
export const MOST_PROBLEMS = 100;

/** Returns a line for each problem, in the order of the files, each once: `file:line:column: message (did you mean "x"?)`. */
export function problemLines(problems: readonly Problem[]): readonly string[] {
  const files = [...new Set(problems.map((problem) => problem.file))];
  const sorted = problems.toSorted(
    (a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line || a.column - b.column,
  );
  const lines = sorted.map(({ file, line, column, message, suggestion }) => {
    const hint = suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`;
    return `${file}:${line}:${column}: ${message}${hint}`;
  });
  return [...new Set(lines)];
}

export type Path = readonly PropertyKey[];

/** One YAML document, with variables inserted, and the place of each value. */
export interface ConfigDocument {
  readonly file: string;
  /** Plain data, as far as the file can be read as YAML; undefined if nothing can be read. */
  readonly data: unknown;
  /** Whether it is valid YAML. Otherwise what the file says may be something else than intended. */
  readonly isSound: boolean;
  readonly problems: readonly Problem[];
  /** One for each word of the previous version that it uses. */
  readonly notices: readonly Problem[];
  /** Returns the place of the value, or of its key if the value spans lines; the nearest place around it if it is missing. */
  place(path: Path): Place;
  /** Returns the place of the key. */
  keyPlace(path: Path): Place;
  /** Whether the value is a text with variables. A default counts as the text of the file. */
  hasVariables(path: Path): boolean;
  /** Whether a variable of the value was not found: other problems of the value are then meaningless. */
  isUnresolved(path: Path): boolean;
}

/** A few settings may share anchors; hundreds of aliases are an attack on memory. */
const MOST_ALIASES = 50;
/** The resolution of an alias needs a walk through the document. */
const MOST_ALIASES_WRITTEN = 200;

/** Levels of lists and mappings. No setting needs more than ten, and deeper data would exhaust the stack of the validator. */
const MOST_LEVELS = 100;

/** `repeatedKeys` replaces the parser's check, which compares each key with every other one. */
const READING = { prettyErrors: false, uniqueKeys: false } as const;

/** Something wrong at an offset of the source. */
interface Fault {
  readonly offset: number;
  readonly message: string;
}

/** Reads YAML 1.2. Duplicate keys, unknown tags and second documents are problems. Never throws. */
export function readDocument(file: string, source: string, variables: Variables): ConfigDocument {
  const lines = new yaml.LineCounter();
  const document = yaml.parseDocument(source, { ...READING, lineCounter: lines });
  return filledDocument(document, { file, source, lines, variables });
}

/** Reads a text that may have several documents, separated by `---`. */
export function readDocuments(file: string, source: string, variables: Variables): readonly ConfigDocument[] {
  const lines = new yaml.LineCounter();
  const documents: readonly yaml.Document[] = yaml.parseAllDocuments(source, { ...READING, lineCounter: lines });
  if (documents.length === 0) return [readDocument(file, source, variables)];
  return documents.map((document) => filledDocument(document, { file, source, lines, variables }));
}

interface Origin {
  readonly file: string;
  readonly source: string;
  readonly lines: yaml.LineCounter;
  readonly variables: Variables;
}

function filledDocument(document: yaml.Document, { file, source, lines, variables }: Origin): ConfigDocument {
  const filled = fillVariables(document, variables);
  const syntax = [...syntaxFaults(document, source), ...repeatedKeys(document)].sort((a, b) => a.offset - b.offset);
  const refused = forbidden(document);
  const formerKeys = renameFormerKeys(document);
  const isReadable = refused.length === 0 && !syntax.includes(TOO_DEEP);
  const content = isReadable ? toData(document) : { faults: [] };
  const problemAt = ({ offset, message }: Fault): Problem => ({ ...placeAt(offset), message });
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { file, line, column: col };
  };
  const place = (path: Path) => placeAt(offsetOf(walk(document, path).at(-1), false));
  const formerValues = replaceFormerValues(content.data);
  return {
    file,
    data: content.data,
    isSound: syntax.length === 0,
    problems: [...syntax, ...refused, ...filled.faults, ...content.faults].slice(0, MOST_PROBLEMS).map(problemAt),
    notices: [
      ...formerValues.map(({ path, message }) => ({ ...place(path), message: `${pathText(path)}: ${message}` })),
      ...formerKeys.map(problemAt),
    ],
    place,
    keyPlace: (path) => placeAt(offsetOf(walk(document, path).at(-1), true)),
    hasVariables: (path) => filled.filled.size > 0 && filled.filled.has(valueAt(document, path)),
    isUnresolved: (path) => filled.unresolved.size > 0 && filled.unresolved.has(valueAt(document, path)),
  };
}

/** The words of the previous version, which this version still reads. Delete an entry with the next version. */
const FORMER_KEYS: Readonly<Record<string, string>> = { doneStatus: 'completedStatus', doneState: 'completedStatus' };
const FORMER_VALUES = [
  { rules: ['rules', 'workflow', 'rules'], key: 'workItem', was: 'started', now: ['in_progress'] },
  // A tracker may have a status of its own with this name, so the former word stays, and counts alone beside a new one.
  { rules: ['rules', 'triage'], key: 'status', was: 'done', now: ['completed', 'dropped', 'done'] },
];

/** Renames former keys of connections. */
function renameFormerKeys(document: yaml.Document): readonly Fault[] {
  const connections = document.get('connections');
  if (!yaml.isMap(connections)) return [];
  return connections.items.flatMap(({ key: name, value }) => {
    if (!yaml.isMap(value)) return [];
    return value.items.flatMap(({ key }) => {
      const was = yaml.isScalar(key) ? String(key.value) : '';
      const now = Object.hasOwn(FORMER_KEYS, was) ? FORMER_KEYS[was] : undefined;
      if (now === undefined || !yaml.isScalar(key) || value.has(now)) return [];
      key.value = now;
      const path = pathText(['connections', String(name), was]);
      const message = `${path}: the key is called "${now}"; the next version no longer reads "${was}"`;
      return [{ offset: key.range?.[0] ?? 0, message }];
    });
  });
}

/** Replaces former values in the conditions of rules. */
function replaceFormerValues(data: unknown): readonly { readonly path: Path; readonly message: string }[] {
  return FORMER_VALUES.flatMap(({ rules, key, was, now }) => {
    const list = rules.reduce((at: unknown, name) => (at as Readonly<Record<string, unknown>> | null)?.[name], data);
    if (!Array.isArray(list)) return [];
    return list.flatMap((rule: { when?: Record<string, unknown> } | null, index) => {
      const values = [rule?.when?.[key]].flat();
      const isFormer = (value: unknown) => typeof value === 'string' && value.toLowerCase() === was;
      const isOwn = now.includes(was) && now.some((word) => word !== was && values.includes(word));
      if (!rule?.when || isOwn || !values.some(isFormer)) return [];
      rule.when[key] = values.flatMap((value) => (isFormer(value) ? now : [value]));
      const words = now.filter((word) => word !== was).map((word) => `"${word}"`);
      const message = `write ${words.join(' or ')} for "${was}"; the next version no longer reads it in this sense`;
      return [{ path: [...rules, index, 'when', key], message }];
    });
  });
}

/** Inserts variables into every text that is a value; keys stay unchanged. */
function fillVariables(document: yaml.Document, variables: Variables) {
  const faults: Fault[] = [];
  const filled = new Set<unknown>();
  const unresolved = new Set<unknown>();
  yaml.visit(document, {
    Scalar(key, scalar) {
      if (key === 'key' || typeof scalar.value !== 'string' || !scalar.value.includes('$')) return;
      const result = interpolate(scalar.value, variables);
      const offset = scalar.range?.[0] ?? 0;
      filled.add(scalar);
      if (result.problems.length > 0) unresolved.add(scalar);
      else scalar.value = result.text;
      faults.push(...result.problems.map((message) => ({ offset, message })));
    },
  });
  return { faults, filled, unresolved };
}

function syntaxFaults(document: yaml.Document, source: string): readonly Fault[] {
  // The parser went on after its stack was exhausted, so its other errors say nothing about the text.
  if (document.errors.some(({ code }) => code === 'RESOURCE_EXHAUSTION')) return [TOO_DEEP];
  return [...document.errors, ...document.warnings].map((error) => ({
    offset: isUnclosedQuote(error) ? unclosedQuoteOffset(document, error.pos[0]) : error.pos[0],
    message: syntaxMessage(error, source),
  }));
}

function isUnclosedQuote({ code, message }: yaml.YAMLError): boolean {
  return code === 'MISSING_CHAR' && message.startsWith('Missing closing');
}

/** Returns where the unclosed text begins. @param end where the parser reports it, perhaps the end of the file */
function unclosedQuoteOffset(document: yaml.Document, end: number): number {
  let offset = end;
  yaml.visit(document, {
    Scalar(_key, { type, range }) {
      const isQuoted = type === 'QUOTE_DOUBLE' || type === 'QUOTE_SINGLE';
      if (isQuoted && range && range[0] <= end) offset = range[0];
    },
  });
  return offset;
}

/** Finds parts that YAML allows and plain data must not have: endless data, and keys that reach into the language. */
function forbidden(document: yaml.Document): readonly Fault[] {
  if (countAliases(document) > MOST_ALIASES_WRITTEN) return [TOO_MANY_ALIASES];
  const faults: Fault[] = [];
  const refuse = (node: yaml.Node, message: string) => faults.push({ offset: node.range?.[0] ?? 0, message });
  yaml.visit(document, {
    Alias(_key, alias, ancestors) {
      const target = alias.resolve(document);
      if (target && (ancestors as readonly unknown[]).includes(target))
        refuse(alias, 'an alias must not lie inside its own anchor');
    },
    Scalar(key, scalar) {
      if (key === 'key' && scalar.value === '__proto__') refuse(scalar, 'unknown key "__proto__"');
    },
    // Such a key would be shown as a text of values, and a value may be a secret.
    Pair(_key, { key }) {
      if (yaml.isNode(key) && !yaml.isScalar(key)) refuse(key, 'a key must be plain text');
    },
  });
  return faults;
}

function toData(document: yaml.Document): { readonly data?: unknown; readonly faults: readonly Fault[] } {
  try {
    const data: unknown = document.toJS({ maxAliasCount: MOST_ALIASES });
    return isTooDeep(data) ? { faults: [TOO_DEEP] } : { data, faults: [] };
  } catch (error) {
    return { faults: [(error as Error).name === 'RangeError' ? TOO_DEEP : TOO_MANY_ALIASES] };
  }
}

/** Visits each object once in a level, because an alias makes one object the part of many. */
function isTooDeep(data: unknown): boolean {
  let level = new Set([data]);
  for (let depth = 0; depth <= MOST_LEVELS && level.size > 0; depth++) {
    const parts = [...level].flatMap((part) => (typeof part === 'object' && part !== null ? Object.values(part) : []));
    level = new Set<unknown>(parts);
  }
  return level.size > 0;
}

const TOO_DEEP: Fault = { offset: 0, message: `too deep: at most ${MOST_LEVELS} levels of nesting are allowed` };

const TOO_MANY_ALIASES: Fault = {
  offset: 0,
  message: `too many aliases: at most ${MOST_ALIASES} expansions are allowed`,
};

function countAliases(document: yaml.Document): number {
  let count = 0;
  yaml.visit(document, { Alias: () => void count++ });
  return count;
}

/** Finds the second and later keys of the same name in a mapping. */
function repeatedKeys(document: yaml.Document): readonly Fault[] {
  const faults: Fault[] = [];
  yaml.visit(document, {
    Map(_key, { items }) {
      const seen = new Set<string>();
      for (const { key } of items) {
        if (!yaml.isScalar(key)) continue;
        const name = String(key.value);
        if (seen.has(name)) faults.push({ offset: key.range?.[0] ?? 0, message: 'this key appears twice' });
        seen.add(name);
      }
    },
  });
  return faults;
}

function valueAt(document: yaml.Document, path: Path): unknown {
  const steps = walk(document, path);
  return steps.length === path.length + 1 ? steps.at(-1)?.value : undefined;
}

/** A value that spans lines is shown at its key. */
function offsetOf(step: Step | undefined, wantsKey: boolean): number {
  const isWide = step?.alias === undefined && yaml.isCollection(step?.value);
  const spot = wantsKey || isWide ? (step?.key ?? step?.value) : (step?.alias ?? step?.value ?? step?.key);
  return spot?.range?.[0] ?? step?.key?.range?.[0] ?? 0;
}

interface Step {
  readonly key?: yaml.Node;
  /** The alias itself, if the value is one; `value` is its target. */
  readonly alias?: yaml.Node;
  readonly value?: yaml.Node;
}

/** Returns the steps from the root along a path, as far as it exists. The first step is the root. */
function walk(document: yaml.Document, path: Path): readonly Step[] {
  const steps: Step[] = [{ value: document.contents ?? undefined }];
  for (const name of path) {
    const next = stepInto(document, steps.at(-1)?.value, name);
    if (next === undefined) break;
    steps.push(next);
  }
  return steps;
}

function stepInto(document: yaml.Document, node: yaml.Node | undefined, name: PropertyKey): Step | undefined {
  if (!yaml.isCollection(node)) return undefined;
  if (!yaml.isMap(node))
    return node.has(name) ? resolved(document, node.get(name, true) as yaml.Node | undefined) : undefined;
  const pair = node.items.find((item) => yaml.isScalar(item.key) && String(item.key.value) === String(name));
  if (pair === undefined) return undefined;
  return { key: pair.key as yaml.Node, ...resolved(document, (pair.value ?? undefined) as yaml.Node | undefined) };
}

function resolved(document: yaml.Document, value: yaml.Node | undefined): Step {
  return yaml.isAlias(value) ? { alias: value, value: value.resolve(document) } : { value };
}

function syntaxMessage(error: yaml.YAMLError, source: string): string {
  if (error.code === 'MULTIPLE_DOCS') return 'one file describes one workspace: remove what follows ---';
  const before = source.slice(Math.max(0, error.pos[0] - 1), error.pos[0] + 1);
  if (error.code === 'MISSING_CHAR' && before === `\${`)
    return `inside [ ] and { } a variable needs quotes: "\${NAME}"`;
  return `not valid YAML: ${error.message}`;
}

/** Stands for a secret. In quotes it is a value wherever the secret was one. */
const VARIABLE = `\${SECRET}`;

/**
 * Returns the text of the configuration of one workspace, with a variable for each secret that is written in it. Comments are
 * left out, because one may hold a setting, such as a token that was in use before.
 *
 * @param source may hold several workspaces, as YAML documents
 */
export function textWithoutSecrets(source: string, workspace: string): string {
  const documents = [...yaml.parseAllDocuments(source)];
  // A text that leaves out the name holds nothing else. Of several documents none may be shown in place of another.
  const index = documents.length === 1 ? 0 : documents.findIndex((document) => document.get('name') === workspace);
  const document = documents[index];
  if (document === undefined || document.errors.length > 0) return '';
  const secrets = new Set(literalSecrets(document.toJS()));
  const isSecret = (value: unknown) => typeof value === 'string' && secrets.has(value) && !/^\$\{\w+\}$/.test(value);
  document.comment = document.commentBefore = null;
  yaml.visit(document, {
    Node(_key, node) {
      node.comment = node.commentBefore = null;
      if (yaml.isScalar(node) && isSecret(node.value))
        Object.assign(node, { value: VARIABLE, type: yaml.Scalar.QUOTE_DOUBLE });
    },
  });
  return document.toString({ lineWidth: 0 });
}

type Fields = Readonly<Record<string, unknown>>;

/** A workspace file as written: its variables are not replaced, and nothing is validated. */
export interface WrittenSettings {
  readonly workspace?: Fields | null;
  readonly connections?: Readonly<Record<string, Fields | null>> | null;
}

/** Parses a workspace file. Throws `config_invalid` if it is not YAML. */
export function writtenSettings(text: string): WrittenSettings {
  try {
    return (yaml.parse(text) ?? {}) as WrittenSettings;
  } catch (cause) {
    throw new SyncError('config_invalid', `the draft is not valid YAML: ${(cause as Error).message}`, { cause });
  }
}

/**
 * Returns the workspace file for a CI job, without comments. Leaves out the settings of webhooks, which cannot reach a job, and the
 * interval of polls, because a job polls when it starts.
 */
export function jobConfig(name: string, { workspace, connections, ...others }: WrittenSettings): string {
  const { webhook: _, ...reached } = workspace ?? {};
  const polled = Object.entries(connections ?? {}).map(([connection, given]) => {
    const { webhookSecrets: _secrets, poll: _poll, ...own } = given ?? {};
    return [connection, own];
  });
  return yaml.stringify(
    { name, workspace: reached, ...others, connections: Object.fromEntries(polled) },
    { lineWidth: 0 },
  );
}
