import { type ZodType, z } from 'zod';
import { SyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { joinApart, keep, type Shape } from '../../platform/lib/shape.ts';

/** Parses the body of a delivery. Throws `delivery_malformed`. */
export function readJson(body: Uint8Array): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('delivery_malformed', error.message, { cause: error });
    throw error;
  }
}

/** Parses a payload by its schema. Throws `delivery_malformed`, which names the first field that does not fit. */
export function read<Output>(expected: ZodType<Output>, payload: unknown): Output {
  const result = expected.safeParse(payload);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new SyncError('delivery_malformed', `${issue?.path.join('.') || 'the body'}: ${issue?.message}`);
}

type Answer = Pick<HttpAnswer, 'status' | 'body' | 'content'>;

/**
 * Parses the JSON body of an answer, unless the client has parsed it already. Throws `answer_malformed`, for example for an
 * HTML page of a proxy, or for a truncated body.
 */
export function readAnswer(answer: Answer, what: string): unknown {
  if (answer.content !== undefined) return answer.content;
  try {
    return parseJson(answer.body);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const hint = isPage(answer.body)
      ? 'A web page answered in place of the API: check host and apiUrl of the connection, and whether a proxy asks for a login.'
      : undefined;
    throw new SyncError('answer_malformed', `${what}: ${error.message}`, { cause: error, status: answer.status, hint });
  }
}

function isPage(body: Uint8Array): boolean {
  return /^\s*<(?:!doctype|html)/i.test(Buffer.from(body.subarray(0, 100)).toString('latin1'));
}

/**
 * Parses an answer by its schema. Throws `answer_malformed`, which names the request and the first field that does not fit.
 * Every answer of a vendor goes through here or through `readable`, because a `ZodError` is no `SyncError`.
 *
 * @param what the request as messages name it: `GET /user`
 */
export function parseAnswer<Output>(expected: ZodType<Output>, content: unknown, what: string): Output {
  const result = expected.safeParse(content);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const field = issue?.path.join('.') || 'the answer';
  throw new SyncError('answer_malformed', `${what}: ${field}: ${issue?.message}`);
}

/**
 * Returns the content if it fits the schema, else undefined. For content that the vendor does not guarantee, such as one of several
 * shapes, or a detail of a message.
 */
export function readable<Output>(expected: ZodType<Output>, content: unknown): Output | undefined {
  return expected.safeParse(content).data;
}

/** Parses an answer that must be a list. Throws `answer_malformed`. */
export function readList(answer: Answer, what: string): readonly unknown[] {
  const list = readAnswer(answer, what);
  if (Array.isArray(list)) return list;
  throw new SyncError('answer_malformed', `${what}: the answer is not a list`, { status: answer.status });
}

/** Serializes the body of a delivery. Puts long values back that the parser has set apart (`platform/lib/shape.ts`). */
export function writeJson(content: unknown): Buffer {
  return joinApart(content);
}

/**
 * A schema by which a field that is missing, or has another type, is undefined: it is then neither compared nor cleared. Every
 * field except identity and time is read by it.
 */
export const absent = <Field extends z.ZodType>(field: Field) => field.optional().catch(undefined);

/** A time of RFC 3339, converted to UTC. Rejects times whose year in UTC does not have four digits. */
export const instant = z.iso
  .datetime({ offset: true })
  .transform((text) => (text.endsWith('Z') ? text : new Date(text).toISOString()))
  .refine((text) => /^\d{4}-/.test(text), 'must be a time between the years 0 and 9999');

export function isInstant(text: string): boolean {
  return instant.safeParse(text).success;
}

/** A web address that people can open. Rejects credentials, because a user name before the host may look like the host. */
export const webAddress = z
  .string()
  .regex(/^https?:\/\/\S{1,2000}$/)
  .refine((text) => {
    const url = URL.parse(text);
    return url !== null && url.username === '' && url.password === '';
  }, 'must be an address without credentials');

/** Sorts names and removes duplicates. Vendors guarantee no order, and an item with the same content must be equal. */
export function sorted(names: readonly string[] | undefined): string[] | undefined {
  return names && [...new Set(names)].sort();
}

/** Removes fields that are undefined, so that equal items are equal objects. */
export function omitUndefined<Fields extends object>(fields: Fields): Partial<Fields> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<Fields>;
}

export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Returns the name of a part, such as a milestone; null if the vendor reports that there is none. */
export function nameOf(part: { readonly name: string } | null | undefined): string | null | undefined {
  return part === null ? null : part?.name;
}

/** Returns the e-mail addresses by the ids of people, without people who hide theirs; undefined if all do. */
export function emailsOf(
  people: readonly (readonly [id: string | undefined, email: string | undefined])[],
): Readonly<Record<string, string>> | undefined {
  const visible = people.filter(([id, email]) => id !== undefined && email !== undefined);
  return visible.length === 0 ? undefined : (Object.fromEntries(visible) as Record<string, string>);
}

/** Whether a status has the configured name, regardless of case; true if none is configured. */
export function isNamed(name: string, configured: string | undefined): boolean {
  return configured === undefined || name.toLowerCase() === configured.toLowerCase();
}

/** Finds a web address in plain text, without the punctuation after it. `split` puts the addresses at odd indexes. */
export const ADDRESS_IN_TEXT = /(https?:\/\/[^\s<>()[\]"'`]+[^\s<>()[\]"'`.,;:!?])/;

/** Returns the fields that a schema reads; for a union, the fields of all its objects. */
function shapeOf(expected: z.ZodObject): Shape {
  return Object.fromEntries(Object.entries(expected.shape).map(([name, part]) => [name, partOf(part)]));
}

/**
 * Returns the fields of an answer to keep, and a function that removes all others: a page of 100 pull requests shrinks from
 * 2 MB to its texts. `translate` returns the same items for both: values of an unexpected type stay as they are.
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
  if (expected instanceof z.ZodUnion) return mergeShapes(expected.def.options.map(partOf));
  // Code may read any field of a loose object.
  const isLoose = expected instanceof z.ZodObject && expected.def.catchall instanceof z.ZodUnknown;
  return expected instanceof z.ZodObject && !isLoose ? mergeShapes([shapeOf(expected)]) : true;
}

/** Returns true, which keeps the whole value, if no part of it is named. */
function mergeShapes(parts: readonly (true | Shape)[]): true | Shape {
  const shapes = parts.filter((part) => part !== true && Object.keys(part).length > 0);
  return shapes.length === 0 ? true : Object.assign({}, ...shapes);
}
