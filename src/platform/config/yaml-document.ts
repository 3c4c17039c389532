import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  LineCounter,
  type Node,
  parse,
  parseAllDocuments,
  parseDocument,
  Scalar,
  stringify,
  visit,
  type YAMLError,
} from 'yaml';
import { SyncError } from '../../model/errors/sync-error.ts';
import { interpolate, literalSecrets, type Variables } from './interpolate.ts';
import { MOST_PROBLEMS, type Place, type Problem } from './problems.ts';

export type Path = readonly PropertyKey[];

/** One YAML document, with variables inserted, and the place of each value. */
export interface ConfigDocument {
  readonly file: string;
  /** Plain data, as far as the file can be read as YAML; undefined if nothing can be read. */
  readonly data: unknown;
  /** Lines of invalid YAML: their content, and keys that seem to be missing, may be something else than intended. */
  readonly unsound: ReadonlySet<number>;
  readonly problems: readonly Problem[];
  /** Returns the place of the value, or of its key if the value spans lines; the nearest place around it if it is missing. */
  place(path: Path): Place;
  /** Returns the place of the key. */
  keyPlace(path: Path): Place;
  /** The variables in the value, if it is a text with variables; undefined otherwise. A default counts as the text of the file. */
  variablesIn(path: Path): readonly string[] | undefined;
  /** Whether a variable of the value was not found: other problems of the value are then meaningless. */
  isUnresolved(path: Path): boolean;
}

/** A few settings may share anchors; hundreds of aliases are an attack on memory. */
const MOST_ALIASES = 50;
/** The resolution of an alias needs a walk through the document. */
const MOST_ALIASES_WRITTEN = 200;

/** `repeatedKeys` replaces the parser's check, which compares each key with every other one. */
const READING = { prettyErrors: false, uniqueKeys: false } as const;

/** Something wrong at an offset of the source. */
interface Fault {
  readonly offset: number;
  readonly message: string;
}

/** Reads YAML 1.2. Duplicate keys, unknown tags and second documents are problems. Never throws. */
export function readDocument(file: string, source: string, variables: Variables): ConfigDocument {
  const lines = new LineCounter();
  const document = parseDocument(source, { ...READING, lineCounter: lines });
  return filledDocument(document, { file, source, lines, variables });
}

/** Reads a text that may have several documents, separated by `---`. */
export function readDocuments(file: string, source: string, variables: Variables): readonly ConfigDocument[] {
  const lines = new LineCounter();
  const documents: readonly Document[] = parseAllDocuments(source, { ...READING, lineCounter: lines });
  if (documents.length === 0) return [readDocument(file, source, variables)];
  return documents.map((document) => filledDocument(document, { file, source, lines, variables }));
}

interface Origin {
  readonly file: string;
  readonly source: string;
  readonly lines: LineCounter;
  readonly variables: Variables;
}

function filledDocument(document: Document, { file, source, lines, variables }: Origin): ConfigDocument {
  const filled = fillVariables(document, variables);
  const syntax = [...syntaxFaults(document, source), ...repeatedKeys(document)].sort((a, b) => a.offset - b.offset);
  const refused = forbidden(document);
  const content = refused.length === 0 ? toData(document) : { faults: [] };
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { file, line, column: col };
  };
  return {
    file,
    data: content.data,
    unsound: new Set(syntax.map(({ offset }) => placeAt(offset).line)),
    problems: [...syntax, ...refused, ...filled.faults, ...content.faults]
      .slice(0, MOST_PROBLEMS)
      .map(({ offset, message }) => ({ ...placeAt(offset), message })),
    place: (path) => placeAt(offsetOf(walk(document, path).at(-1), false)),
    keyPlace: (path) => placeAt(offsetOf(walk(document, path).at(-1), true)),
    variablesIn: (path) => (filled.names.size > 0 ? filled.names.get(valueAt(document, path)) : undefined),
    isUnresolved: (path) => filled.unresolved.size > 0 && filled.unresolved.has(valueAt(document, path)),
  };
}

/** Inserts variables into every text that is a value; keys stay unchanged. */
function fillVariables(document: Document, variables: Variables) {
  const faults: Fault[] = [];
  const names = new Map<unknown, readonly string[]>();
  const unresolved = new Set<unknown>();
  visit(document, {
    Scalar(key, scalar) {
      if (key === 'key' || typeof scalar.value !== 'string' || !scalar.value.includes('$')) return;
      const result = interpolate(scalar.value, variables);
      const offset = scalar.range?.[0] ?? 0;
      names.set(scalar, result.names);
      if (result.problems.length > 0) unresolved.add(scalar);
      else scalar.value = result.text;
      faults.push(...result.problems.map((message) => ({ offset, message })));
    },
  });
  return { faults, names, unresolved };
}

function syntaxFaults(document: Document, source: string): readonly Fault[] {
  return [...document.errors, ...document.warnings].map((error) => ({
    offset: isUnclosedQuote(error) ? unclosedQuoteOffset(document, error.pos[0]) : error.pos[0],
    message: syntaxMessage(error, source),
  }));
}

function isUnclosedQuote({ code, message }: YAMLError): boolean {
  return code === 'MISSING_CHAR' && message.startsWith('Missing closing');
}

/** Returns where the unclosed text begins. @param end where the parser reports it, perhaps the end of the file */
function unclosedQuoteOffset(document: Document, end: number): number {
  let offset = end;
  visit(document, {
    Scalar(_key, { type, range }) {
      const isQuoted = type === 'QUOTE_DOUBLE' || type === 'QUOTE_SINGLE';
      if (isQuoted && range && range[0] <= end) offset = range[0];
    },
  });
  return offset;
}

/** Finds parts that YAML allows and plain data must not have: endless data, and keys that reach into the language. */
function forbidden(document: Document): readonly Fault[] {
  if (countAliases(document) > MOST_ALIASES_WRITTEN) return [TOO_MANY_ALIASES];
  const faults: Fault[] = [];
  const refuse = (node: Node, message: string) => faults.push({ offset: node.range?.[0] ?? 0, message });
  visit(document, {
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
      if (isNode(key) && !isScalar(key)) refuse(key, 'a key must be plain text');
    },
  });
  return faults;
}

function toData(document: Document): { readonly data?: unknown; readonly faults: readonly Fault[] } {
  try {
    return { data: document.toJS({ maxAliasCount: MOST_ALIASES }), faults: [] };
  } catch {
    return { faults: [TOO_MANY_ALIASES] };
  }
}

const TOO_MANY_ALIASES: Fault = {
  offset: 0,
  message: `too many aliases: at most ${MOST_ALIASES} expansions are allowed`,
};

function countAliases(document: Document): number {
  let count = 0;
  visit(document, { Alias: () => void count++ });
  return count;
}

/** Finds the second and later keys of the same name in a mapping. */
function repeatedKeys(document: Document): readonly Fault[] {
  const faults: Fault[] = [];
  visit(document, {
    Map(_key, { items }) {
      const seen = new Set<string>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        const name = String(key.value);
        if (seen.has(name)) faults.push({ offset: key.range?.[0] ?? 0, message: 'this key appears twice' });
        seen.add(name);
      }
    },
  });
  return faults;
}

function valueAt(document: Document, path: Path): unknown {
  const steps = walk(document, path);
  return steps.length === path.length + 1 ? steps.at(-1)?.value : undefined;
}

/** A value that spans lines is shown at its key. */
function offsetOf(step: Step | undefined, wantsKey: boolean): number {
  const isWide = step?.alias === undefined && isCollection(step?.value);
  const spot = wantsKey || isWide ? (step?.key ?? step?.value) : (step?.alias ?? step?.value ?? step?.key);
  return spot?.range?.[0] ?? step?.key?.range?.[0] ?? 0;
}

interface Step {
  readonly key?: Node;
  /** The alias itself, if the value is one; `value` is its target. */
  readonly alias?: Node;
  readonly value?: Node;
}

/** Returns the steps from the root along a path, as far as it exists. The first step is the root. */
function walk(document: Document, path: Path): readonly Step[] {
  const steps: Step[] = [{ value: document.contents ?? undefined }];
  for (const name of path) {
    const next = stepInto(document, steps.at(-1)?.value, name);
    if (next === undefined) break;
    steps.push(next);
  }
  return steps;
}

function stepInto(document: Document, node: Node | undefined, name: PropertyKey): Step | undefined {
  if (!isCollection(node)) return undefined;
  if (!isMap(node)) return node.has(name) ? resolved(document, node.get(name, true) as Node | undefined) : undefined;
  const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(name));
  if (pair === undefined) return undefined;
  return { key: pair.key as Node, ...resolved(document, (pair.value ?? undefined) as Node | undefined) };
}

function resolved(document: Document, value: Node | undefined): Step {
  return isAlias(value) ? { alias: value, value: value.resolve(document) } : { value };
}

function syntaxMessage(error: YAMLError, source: string): string {
  if (error.code === 'TAB_AS_INDENT') return 'indent with spaces: YAML allows no tabs';
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
  const documents = [...parseAllDocuments(source)];
  // A text that leaves out the name holds nothing else. Of several documents none may be shown in place of another.
  const index = documents.length === 1 ? 0 : documents.findIndex((document) => document.get('name') === workspace);
  const document = documents[index];
  if (document === undefined || document.errors.length > 0) return '';
  const secrets = new Set(literalSecrets(document.toJS()));
  const isSecret = (value: unknown) => typeof value === 'string' && secrets.has(value) && !/^\$\{\w+\}$/.test(value);
  document.comment = document.commentBefore = null;
  visit(document, {
    Node(_key, node) {
      node.comment = node.commentBefore = null;
      if (isScalar(node) && isSecret(node.value)) Object.assign(node, { value: VARIABLE, type: Scalar.QUOTE_DOUBLE });
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
    return (parse(text) ?? {}) as WrittenSettings;
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
  return stringify({ name, workspace: reached, ...others, connections: Object.fromEntries(polled) }, { lineWidth: 0 });
}
