import { type ZodType, z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { joinApart } from '../../platform/lib/json-apart.ts';
import { keep, type Shape } from '../../platform/lib/shape.ts';

/** Reads the body of a delivery. Throws `delivery_malformed`. */
export function readJson(body: Uint8Array): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('delivery_malformed', error.message, { cause: error });
    throw error;
  }
}

/** A payload as its schema has it. Throws `delivery_malformed`, which names the first place that is wrong. */
export function read<Output>(expected: ZodType<Output>, payload: unknown): Output {
  const result = expected.safeParse(payload);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new SyncError('delivery_malformed', `${issue?.path.join('.') || 'the body'}: ${issue?.message}`);
}

type Answer = Pick<HttpAnswer, 'status' | 'body' | 'content'>;

/**
 * Reads the JSON body of an answer, unless the client has parsed it already. Throws `answer_malformed`: an HTML page of a proxy, a body
 * that was cut off.
 */
export function readAnswer(answer: Answer, what: string): unknown {
  if (answer.content !== undefined) return answer.content;
  try {
    return parseJson(answer.body);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new SyncError('answer_malformed', `${what}: ${error.message}`, { cause: error, status: answer.status });
  }
}

/**
 * An answer as its schema has it. Throws `answer_malformed`, which names the request and the first place that is wrong. Every
 * answer of a vendor goes through here or through `readable`: what a schema throws by itself is no `SyncError`.
 *
 * @param what the request, for people: `GET /user`
 */
export function parseAnswer<Output>(expected: ZodType<Output>, content: unknown, what: string): Output {
  const result = expected.safeParse(content);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const place = issue?.path.join('.') || 'the answer';
  throw new SyncError('answer_malformed', `${what}: ${place}: ${issue?.message}`);
}

/** The content if it fits the schema, else undefined. For what nobody promised: one of several shapes, a help for people. */
export function readable<Output>(expected: ZodType<Output>, content: unknown): Output | undefined {
  return expected.safeParse(content).data;
}

/** Reads an answer that must be a list. Throws `answer_malformed`. */
export function readList(answer: Answer, what: string): readonly unknown[] {
  const list = readAnswer(answer, what);
  if (Array.isArray(list)) return list;
  throw new SyncError('answer_malformed', `${what}: the answer is not a list`, { status: answer.status });
}

/** The body of a delivery. What the parser set apart of an answer gets its place again. */
export function writeJson(content: unknown): Buffer {
  return joinApart(content);
}

/**
 * A field that is missing, or that has become something else, is absent: it is then neither compared nor cleared.
 * For every field but identity and time, which must be there.
 */
export const absent = <Field extends z.ZodType>(field: Field) => field.optional().catch(undefined);

/** An instant of RFC 3339, always written in UTC. One whose year has no four digits there is none. */
export const instant = z.iso
  .datetime({ offset: true })
  .transform((text) => (text.endsWith('Z') ? text : new Date(text).toISOString()))
  .refine((text) => /^\d{4}-/.test(text), 'must be a time between the years 0 and 9999');

export function isInstant(text: string): boolean {
  return instant.safeParse(text).success;
}

/** An address that people can open, and that does not begin with a name which looks like the host. */
export const webAddress = z
  .string()
  .regex(/^https?:\/\/\S{1,2000}$/)
  .refine((text) => {
    const url = URL.parse(text);
    return url !== null && url.username === '' && url.password === '';
  }, 'must be an address without credentials');

/** Vendors promise no order in lists of names: sorted, the same content is the same item. */
export function sorted(names: readonly string[] | undefined): string[] | undefined {
  return names && [...new Set(names)].sort();
}

/** Leaves absent fields out, so that equal items are equal objects. */
export function omitUndefined<Fields extends object>(fields: Fields): Partial<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<Fields>;
}

/** An id of a vendor that draws ids at random, in lower case. */
export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The name of a part; null where the vendor says that there is no such part. */
export function nameOf(given: { readonly name: string } | null | undefined): string | null | undefined {
  return given === null ? null : given?.name;
}

/** E-mail addresses by id, of those people who show theirs. */
export function emailsOf(
  people: readonly (readonly [id: string | undefined, email: string | undefined])[],
): Readonly<Record<string, string>> | undefined {
  const told = people.filter((each) => each[0] !== undefined && each[1] !== undefined);
  return told.length === 0 ? undefined : (Object.fromEntries(told) as Record<string, string>);
}

/** Whether a status has the name that people configured, in any case; each has where they configured none. */
export function isNamed(name: string, wanted: string | undefined): boolean {
  return wanted === undefined || name.toLowerCase() === wanted.toLowerCase();
}

/** A web address in plain text, without the punctuation behind it: `split` puts each at an odd place. */
export const ADDRESS_IN_TEXT = /(https?:\/\/[^\s<>()[\]"'`]+[^\s<>()[\]"'`.,;:!?])/;

/** The fields that a schema reads: worksync keeps exactly those of an answer. Of a union, the fields of all its objects. */
export function shapeOf(expected: z.ZodObject): Shape {
  return Object.fromEntries(Object.entries(expected.shape).map(([name, part]) => [name, partOf(part)]));
}

/**
 * What to keep of an answer that has this schema, and a function that leaves out the rest, so that a page of 100 pull requests
 * shrinks from 2 MB to its texts. `translate` makes the same items of it: a value of an unexpected kind stays as it is, for
 * `translate` to judge.
 */
export function keptBy(expected: z.ZodObject) {
  const kept = shapeOf(expected);
  return { kept, slim: (found: unknown) => keep(found, kept) };
}

const WRAPPERS = [z.ZodOptional, z.ZodNullable, z.ZodDefault, z.ZodCatch];

function partOf(expected: unknown): true | Shape {
  if (WRAPPERS.some((each) => expected instanceof each)) return partOf((expected as z.ZodOptional).def.innerType);
  if (expected instanceof z.ZodArray) return partOf(expected.def.element);
  if (expected instanceof z.ZodPipe) return partOf(expected.def.in);
  if (expected instanceof z.ZodUnion) return among(expected.def.options.map(partOf));
  // Code may read any field of a loose object.
  const isLoose = expected instanceof z.ZodObject && expected.def.catchall instanceof z.ZodUnknown;
  return expected instanceof z.ZodObject && !isLoose ? among([shapeOf(expected)]) : true;
}

/** A value of which no part is named is kept whole. */
function among(parts: readonly (true | Shape)[]): true | Shape {
  const shapes = parts.filter((part) => part !== true && Object.keys(part).length > 0);
  return shapes.length === 0 ? true : Object.assign({}, ...shapes);
}
