import { type ZodType, z } from 'zod';
import { nearest } from '../lib/text.ts';
import { type ConfigDocument, MOST_PROBLEMS, type Path, type Problem, pathText } from './yaml-document.ts';

/** The part of a document that a schema checks. */
interface Part {
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
 * Checks a part with a schema; every problem gets its place and, for an unknown key or value, the nearest known one. A variable is
 * always text: if the schema expects a number or a boolean, the text is parsed. Values never appear in a message, because they may
 * be secrets.
 */
export function validate<Output>(schema: ZodType<Output>, part: Part): Validated<Output> {
  const value = structuredClone(part.value);
  let result = schema.safeParse(value);
  const read = result.error?.issues.filter((issue) => readVariable(issue, value, part)) ?? [];
  if (read.length > 0) result = schema.safeParse(value);
  if (result.success) return { data: result.data, problems: [] };
  const problems = Iterator.from(result.error.issues)
    .flatMap(causesOf)
    .filter((issue) => !part.document.isUnresolved([...part.path, ...issue.path]))
    .flatMap((issue) => describe(issue, schema, { ...part, value }));
  return { problems: problems.take(MOST_PROBLEMS).toArray() };
}

type Issue = z.core.$ZodIssue;

/** Replaces the text of a variable by the number or boolean that it spells. Returns whether it did. */
function readVariable(issue: Issue, value: unknown, part: Part): boolean {
  if (issue.code === 'invalid_union')
    return issue.errors.flat().some((inner) => readVariable(within(issue, inner), value, part));
  if (issue.code !== 'invalid_type' || !part.document.hasVariables([...part.path, ...issue.path])) return false;
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

/** Replaces the issue of a union by those of the alternative that fits best, unless the schema has a message for it. */
function causesOf(issue: Issue): readonly Issue[] {
  if (issue.code !== 'invalid_union' || issue.message !== 'Invalid input') return [issue];
  const [best = []] = issue.errors.toSorted((a, b) => misfitOf(a) - misfitOf(b) || a.length - b.length);
  return best.flatMap((inner) => causesOf(within(issue, inner)));
}

/** 2 for an alternative of another type, 1 for one of other values. */
function misfitOf(issues: readonly Issue[]): number {
  const misfits = { invalid_type: 2, invalid_value: 1 } as Readonly<Record<string, number>>;
  return Math.max(0, ...issues.map(({ code, path }) => (path.length > 0 ? 0 : (misfits[code] ?? 0))));
}

/** Returns an issue of an alternative with its path from the union. */
function within(union: Issue, inner: Issue): Issue {
  return { ...inner, path: [...union.path, ...inner.path] };
}

function describe(issue: Issue, schema: ZodType, { document, path, value, otherKeys }: Part): readonly Problem[] {
  const at = [...path, ...issue.path];
  if (issue.code === 'unrecognized_keys') {
    const known = [...keysAt(schema, issue.path), ...((issue.path.length === 0 && otherKeys) || [])];
    return issue.keys.slice(0, MOST_PROBLEMS).map((key) => ({
      ...document.keyPlace([...at, key]),
      message: `${label(at)}unknown key "${key}"`,
      suggestion: nearest(key, known),
    }));
  }
  const given = valueAt(value, issue.path);
  const isMissing = given === undefined && issue.path.length > 0;
  if (isMissing && (issue.code === 'invalid_type' || issue.code === 'invalid_value'))
    return [{ ...document.keyPlace(at), message: `${label(at.slice(0, -1))}missing key "${String(at.at(-1))}"` }];
  if (issue.code === 'invalid_key')
    return issue.issues.map(({ message }) => ({ ...document.keyPlace(at), message: label(at) + message }));
  const names = issue.code === 'invalid_value' ? issue.values.filter((each) => typeof each === 'string') : [];
  const suggestion = typeof given === 'string' && names.length > 1 ? nearest(given, names) : undefined;
  const message = issue.message.replace(/^(Invalid|Too) \w+: /, '');
  return [{ ...document.place(at), message: label(at) + message, suggestion }];
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

/** Returns the keys that the schema allows at a path, through alternatives and transformations. */
function keysAt(schema: ZodType, path: Path): readonly string[] {
  let nodes = alternatives(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }));
  for (const key of path) nodes = nodes.flatMap((node) => childrenAt(node, key)).flatMap(alternatives);
  return nodes.flatMap(({ properties = {}, propertyNames }) => [
    ...Object.keys(properties),
    ...((typeof propertyNames === 'object' && propertyNames.enum) || []).map(String),
  ]);
}

function childrenAt(node: JsonSchema, key: PropertyKey): readonly JsonSchema[] {
  const child = typeof key === 'number' ? node.items : (node.properties?.[String(key)] ?? node.additionalProperties);
  return typeof child === 'object' && !Array.isArray(child) ? [child as JsonSchema] : [];
}

function alternatives(node: JsonSchema): readonly JsonSchema[] {
  const inner = [...(node.anyOf ?? []), ...(node.oneOf ?? []), ...(node.allOf ?? [])] as JsonSchema[];
  return [node, ...inner.flatMap(alternatives)];
}
