import { z } from 'zod';
import type { Route } from './contract.ts';

/** Names under which servers put the array of a list, besides the name of the resource. */
const ARRAYS = ['items', 'data', 'results'];

/** Names of the token of the next page. */
const CURSORS = ['nextCursor', 'next_cursor', 'next', 'cursor'];

/**
 * Pure: an answer as the contract has it, whatever it came wrapped in. A list may be a bare array, or stand under its name,
 * `items`, `data` or `results`; a single resource may stand under its name. A list gets `nextCursor` where there is a next
 * page, and `isLast`: whether it is the last page, null where the answer does not say so. What fits nothing is returned as it
 * is.
 */
export function unwrap({ response }: Pick<Route, 'response'>, content: unknown): unknown {
  const { object, id } = objectOf(response);
  if (object === undefined) return content;
  if (id !== undefined) return unwrapResource(id, content);
  const list = Object.entries(object.shape).find(([, field]) => field instanceof z.ZodArray)?.[0];
  return list === undefined ? content : unwrapList(list, content);
}

/** The object that a schema describes, whatever prepares its input, and the id of the resource; a list has none. */
function objectOf(schema: unknown): { readonly object?: z.ZodObject; readonly id?: string } {
  if (!(schema instanceof z.ZodType)) return {};
  const id = schema.meta()?.id;
  const { object, ...inner } =
    schema instanceof z.ZodPipe ? objectOf(schema.out) : { object: schema instanceof z.ZodObject ? schema : undefined };
  return { object, ...inner, ...(typeof id === 'string' && { id }) };
}

function unwrapList(name: string, content: unknown): unknown {
  if (Array.isArray(content)) return { [name]: content, isLast: null };
  if (!isObject(content)) return content;
  const held = [name, ...ARRAYS].find((field) => Array.isArray(content[field]));
  return held === undefined ? content : { ...content, [name]: content[held], ...pageOf(content) };
}

/** Where the list goes on. A next page that cannot be requested leaves the list incomplete. */
function pageOf(content: Fields): { readonly nextCursor?: string | null; readonly isLast: boolean | null } {
  const stated = CURSORS.filter((field) => Object.hasOwn(content, field)).map((field) => content[field]);
  const next = stated.find((value) => value !== null && value !== undefined && value !== '');
  if (next !== undefined) {
    const cursor = cursorOf(next);
    return { ...(cursor !== undefined && { nextCursor: cursor }), isLast: false };
  }
  if (content['hasMore'] === true || content['has_more'] === true) return { isLast: false };
  const isStated = stated.length > 0 || content['hasMore'] === false || content['has_more'] === false;
  return { nextCursor: null, isLast: isStated ? true : null };
}

/** A token, or the `cursor` of an address. */
function cursorOf(next: unknown): string | undefined {
  if (typeof next === 'number') return String(next);
  if (typeof next !== 'string') return undefined;
  if (!/^(https?:|\/|\?)/.test(next)) return next;
  return URL.parse(next, 'http://next.invalid')?.searchParams.get('cursor') ?? undefined;
}

function unwrapResource(id: string, content: unknown): unknown {
  if (!isObject(content)) return content;
  const name = id.charAt(0).toLowerCase() + id.slice(1);
  const held = content[name];
  const isBare = [`${name}Id`, 'identifier'].some((identity) => Object.hasOwn(content, identity));
  return isObject(held) && !isBare ? held : content;
}

type Fields = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
