import { type ZodType, z } from 'zod';
import { nearest } from '../lib/nearest.ts';
import { firstProblems, MOST_PROBLEMS, type Problem, pathText } from './problems.ts';
import type { ConfigDocument, Path } from './yaml-document.ts';

/** The part of a document that a schema checks. */
export interface Part {
  readonly document: ConfigDocument;
  /** The place of the part in the document. */
  readonly path: Path;
  readonly value: unknown;
  /** Keys that are allowed in addition to those of the schema; for suggestions only. */
  readonly otherKeys?: readonly string[];
}

export interface Validated<Output> {
  /** Present if the schema accepts the part. */
  readonly data?: Output;
  /** At most `MOST_PROBLEMS`. */
  readonly problems: readonly Problem[];
}

/**
 * Checks a part with a schema; every problem gets its place and, for an unknown key, a suggestion. A variable is always text: if
 * the schema expects a number or a boolean, the text is parsed. Values never appear in a message, because they may be secrets.
 */
export function validate<Output>(schema: ZodType<Output>, part: Part): Validated<Output> {
  const value = structuredClone(part.value);
  let result = schema.safeParse(value);
  const texts = result.error?.issues.filter((issue) => readVariable(issue, value, part)) ?? [];
  if (texts.length > 0) result = schema.safeParse(value);
  if (result.success) return { data: result.data, problems: [] };
  const problems = Iterator.from(result.error.issues)
    .filter((issue) => !part.document.isUnresolved([...part.path, ...issue.path]))
    .flatMap((issue) => describe(issue, { ...part, value, schema }));
  return { problems: firstProblems(problems) };
}

type Issue = z.core.$ZodIssue;
interface Context extends Part {
  readonly schema: ZodType;
}

/** Replaces the text of a variable by the number or boolean that it spells. Returns whether it did. */
function readVariable(issue: Issue, value: unknown, part: Part): boolean {
  if (issue.code === 'invalid_union')
    return issue.errors.flat().some((inner) => readVariable(within(issue, inner), value, part));
  if (issue.code !== 'invalid_type' || !part.document.variablesIn([...part.path, ...issue.path])) return false;
  const text = valueAt(value, issue.path);
  const read = typeof text === 'string' ? readAs(issue.expected, text.trim()) : undefined;
  const holder = valueAt(value, issue.path.slice(0, -1));
  const key = issue.path.at(-1);
  if (read === undefined || key === undefined || typeof holder !== 'object' || holder === null) return false;
  (holder as Record<PropertyKey, unknown>)[key] = read;
  return true;
}

function readAs(expected: string, text: string): number | boolean | undefined {
  if (expected === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  const isNumber = /^-?\d+(\.\d+)?$/.test(text);
  return (expected === 'number' || expected === 'int') && isNumber ? Number(text) : undefined;
}

function describe(issue: Issue, context: Context): readonly Problem[] {
  const path = [...context.path, ...issue.path];
  if (issue.code === 'unrecognized_keys')
    return issue.keys.slice(0, MOST_PROBLEMS).map((key) => unknownKey(key, issue.path, context));
  if (issue.code === 'invalid_union') return describeUnion(issue, context);
  if (issue.code === 'invalid_key') return [invalidKey(issue, context)];
  if (isMissing(issue, context))
    return [{ ...context.document.keyPlace(path), message: missing(path), dependsOnLayout: true }];
  const given = valueAt(context.value, issue.path);
  const suggestion = issue.code === 'invalid_value' ? nearestOf(given, issue.values) : undefined;
  const problem = refusedValue(context, path, sentence(issue, context));
  return [{ ...problem, dependsOnLayout: given == null, ...(suggestion && { suggestion }) }];
}

/** Common words of other tools, with our value. */
const SYNONYMS: Readonly<Record<string, string>> = {
  closed: 'completed',
  done: 'completed',
  fixed: 'completed',
  resolved: 'completed',
  doing: 'in_progress',
  wip: 'in_progress',
  todo: 'open',
};

/** Returns undefined for a single allowed value, because the message names it anyway. */
function nearestOf(given: unknown, values: readonly unknown[]): string | undefined {
  if (typeof given !== 'string' || values.length <= 1) return undefined;
  const texts = values.filter((value) => typeof value === 'string');
  const synonym = Object.hasOwn(SYNONYMS, given.toLowerCase()) ? SYNONYMS[given.toLowerCase()] : undefined;
  return nearest(given, texts) ?? texts.find((text) => text === synonym);
}

/** Names the variables that the value comes from, never the value. */
function refusedValue({ document }: Context, path: Path, reason: string): Problem {
  const variables = document.variablesIn(path) ?? [];
  const origin = variables.length === 0 ? '' : `the value of ${variables.join(', ')}: `;
  return { ...document.place(path), message: `${label(path)}${origin}${reason}` };
}

function unknownKey(key: string, path: Path, context: Context): Problem {
  const full = [...context.path, ...path];
  const others = path.length === 0 ? (context.otherKeys ?? []) : [];
  const suggestion = nearest(key, [...keysAt(context.schema, path), ...others]);
  const message = `${label(full)}unknown key "${key}"`;
  const place = context.document.keyPlace([...full, key]);
  return { ...place, message, dependsOnLayout: true, ...(suggestion && { suggestion }) };
}

/** A name that a mapping with free names refuses, or one that is not in its list. */
function invalidKey(issue: z.core.$ZodIssueInvalidKey, context: Context): Problem {
  const path = [...context.path, ...issue.path];
  const isListed = issue.issues.some((inner) => inner.code === 'invalid_value');
  if (isListed) return unknownKey(String(issue.path.at(-1)), issue.path.slice(0, -1), context);
  const reasons = issue.issues.map((inner) => inner.message).join('; ');
  return { ...context.document.keyPlace(path), message: `${label(path)}${reasons}` };
}

/**
 * If the schema has no message for a union, reports the problems of the alternative that fits best: of the right type, with the
 * fewest problems.
 */
function describeUnion(issue: z.core.$ZodIssueInvalidUnion, context: Context): readonly Problem[] {
  const path = [...context.path, ...issue.path];
  const isWorded = !/^Invalid (input|discriminator)/.test(issue.message);
  if (isWorded) return [refusedValue(context, path, issue.message)];
  const given = valueAt(context.value, issue.path);
  const fitting = issue.errors.filter((issues) => !issues.some((inner) => isWrongType(inner, given)));
  const best = fitting.toSorted((a, b) => a.length - b.length)[0];
  const values = best?.[0] && isWrongValue(best[0]) ? best[0].values : undefined;
  if (best && !values) return best.flatMap((inner) => describe(within(issue, inner), context));
  const words = [...new Set(issue.errors.flat().flatMap(expectedValues))].join(' or ');
  const options = 'options' in issue ? issue.options : undefined;
  const wanted = Array.isArray(options) ? oneOf(options) : words || 'another value';
  const suggestion = nearestOf(given, values ?? []);
  return [{ ...refusedValue(context, path, `expected ${wanted}`), ...(suggestion && { suggestion }) }];
}

/** The values that an alternative takes, in words; empty if the alternative refuses only a part of the value. */
function expectedValues(inner: Issue): readonly string[] {
  if (inner.code === 'invalid_type') return [typeWord(inner.expected)];
  return isWrongValue(inner) ? [oneOf(inner.values)] : [];
}

/** Returns a problem of an alternative with its path from the union. */
function within(union: Issue, inner: Issue): Issue {
  return { ...inner, path: [...union.path, ...inner.path] };
}

function isWrongType(issue: Issue, given: unknown): boolean {
  if (issue.path.length > 0) return false;
  return (
    issue.code === 'invalid_type' || (isWrongValue(issue) && issue.values.every((each) => typeof each !== typeof given))
  );
}

function isWrongValue(issue: Issue): issue is z.core.$ZodIssueInvalidValue {
  return issue.code === 'invalid_value' && issue.path.length === 0;
}

function isMissing(issue: Issue, context: Context): boolean {
  const hasValue = valueAt(context.value, issue.path) !== undefined;
  return issue.path.length > 0 && !hasValue && (issue.code === 'invalid_type' || issue.code === 'invalid_value');
}

function missing(path: Path): string {
  return `${label(path.slice(0, -1))}missing key "${String(path.at(-1))}"`;
}

function sentence(issue: Issue, context: Context): string {
  if (issue.code === 'invalid_value') return `expected ${oneOf(issue.values)}`;
  if (issue.code === 'invalid_type' && issue.message.startsWith('Invalid input'))
    return `expected ${typeWord(issue.expected)}, got ${kindOf(valueAt(context.value, issue.path), issue.expected)}`;
  if (issue.code === 'custom') return issue.message;
  return issue.message.replace(/^Too (small|big): /, '').replace(/^Invalid (input|string): /, '');
}

function oneOf(values: readonly unknown[]): string {
  const words = values.map((value) => JSON.stringify(value));
  return words.length === 1 ? String(words[0]) : `one of ${words.join(', ')}`;
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
  string: 'text',
  object: 'a mapping',
  record: 'a mapping',
  array: 'a list',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
};

function typeWord(type: string): string {
  return TYPE_WORDS[type] ?? type;
}

function kindOf(value: unknown, expected: string): string {
  if (value === null || value === undefined) return 'nothing';
  if (typeof value === 'number') return expected === 'int' ? 'a fraction' : 'a number';
  return typeWord(Array.isArray(value) ? 'array' : typeof value);
}

/** `quota.window: `, or nothing for the whole file. */
function label(path: Path): string {
  return path.length === 0 ? '' : `${pathText(path)}: `;
}

function valueAt(value: unknown, path: Path): unknown {
  let at = value;
  for (const key of path) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<PropertyKey, unknown>)[key];
  }
  return at;
}

type JsonSchema = z.core.JSONSchema.JSONSchema;

const jsonSchemas = new WeakMap<ZodType, JsonSchema>();

/** Cached for each schema: the conversion takes milliseconds, and each unknown key needs it. */
function jsonSchemaOf(schema: ZodType): JsonSchema {
  const known = jsonSchemas.get(schema);
  if (known) return known;
  const made = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema;
  jsonSchemas.set(schema, made);
  return made;
}

/** Returns the keys that the schema allows at a path, through alternatives and transformations. */
export function keysAt(schema: ZodType, path: Path): readonly string[] {
  let nodes = alternatives(jsonSchemaOf(schema));
  for (const key of path) nodes = nodes.flatMap((node) => childrenAt(node, key)).flatMap(alternatives);
  return [...new Set(nodes.flatMap((node) => [...Object.keys(node.properties ?? {}), ...listedNames(node)]))];
}

function listedNames({ propertyNames }: JsonSchema): readonly string[] {
  return typeof propertyNames === 'object' ? (propertyNames.enum ?? []).map(String) : [];
}

function childrenAt(node: JsonSchema, key: PropertyKey): readonly JsonSchema[] {
  const child = typeof key === 'number' ? node.items : (node.properties?.[String(key)] ?? node.additionalProperties);
  return typeof child === 'object' && !Array.isArray(child) ? [child as JsonSchema] : [];
}

function alternatives(node: JsonSchema): readonly JsonSchema[] {
  const inner = [...(node.anyOf ?? []), ...(node.oneOf ?? []), ...(node.allOf ?? [])] as JsonSchema[];
  return [node, ...inner.flatMap(alternatives)];
}
