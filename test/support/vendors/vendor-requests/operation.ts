import { z } from 'zod';
import type { HttpRequest } from '../../../../src/platform/http/http-client.ts';
import { escapePattern } from '../../../../src/platform/lib/text.ts';

/** One request that a vendor documents: everything that may be sent with it, and nothing else. */
export interface Operation {
  readonly method: HttpRequest['method'];
  /** Below the base of the API; a part in braces stands for one segment, whatever it holds. */
  readonly path: string;
  /** Parameters by name. Absent: none. A parameter that stands several times is a list. */
  readonly query?: z.ZodType;
  /** The JSON that is sent. Absent: none. */
  readonly body?: z.ZodType;
  /** Headers by name in lower case, those that count. */
  readonly headers?: z.ZodType;
}

/** A vendor's description of its API. */
export interface Description {
  /** Where the API is at the vendor itself. Elsewhere (own servers, proxies, tests) whatever stands before a path is the base. */
  readonly base: string;
  find(method: string, path: string): Operation | undefined;
}

/**
 * Describes an API by its routes. A key is a method, a path and the parameters of the query: `name` takes any text,
 * `name=one|other` one of these, and `name<=100` a number up to that. The value is the rest of the operation.
 */
export function described(
  base: string,
  routes: Readonly<Record<string, Pick<Operation, 'body' | 'headers'>>>,
): Description {
  const known = Object.entries(routes).map(([key, rest]) => {
    const [method, path, ...parameters] = key.split(/\s+/) as [Operation['method'], string, ...string[]];
    const operation: Operation = { method, path, ...rest, ...(parameters.length > 0 && { query: query(parameters) }) };
    return { operation, pattern: patternOf(path) };
  });
  return {
    base,
    find: (method, path) =>
      known.find(({ operation, pattern }) => operation.method === method && pattern.test(path))?.operation,
  };
}

/** Parameters of a query, each of which may be left out, or stand several times. */
function query(parameters: readonly string[]): z.ZodType {
  const schemas = parameters.map((parameter) => {
    const [name, rule, values = ''] = parameter.split(/(<?=)(.*)/s) as [string, string?, string?];
    const most = z.coerce.number<string>().int().min(0).max(Number(values));
    const one = rule === '<=' ? most : rule === '=' ? z.enum(values.split('|')) : z.string();
    return [name, z.union([one, z.array(one)])];
  });
  return z.strictObject(Object.fromEntries(schemas) as Record<string, z.ZodType>).partial();
}

/** The spelled-out path wins over the one with a part in braces where both fit: the order of the list decides. */
export function patternOf(path: string, end = '$'): RegExp {
  const parts = path.split(/(\{[^}]*\})/);
  const escaped = parts.map((part) => (part.startsWith('{') ? '[^/?]+' : escapePattern(part)));
  return new RegExp(`^${escaped.join('')}${end}`);
}

/** Returns the part of a request that the vendor does not document; undefined if all of it is documented. */
export function problemOf(description: Description, request: HttpRequest): string | undefined {
  const url = new URL(request.url);
  const shown = `${request.method} ${url.pathname}${url.search}`;
  const operation = below(url, description.base)
    .map((path) => description.find(request.method, path))
    .find((found) => found !== undefined);
  if (!operation) return `${shown}: the vendor documents no such route`;
  const checks: readonly (readonly [string, z.ZodType | undefined, unknown])[] = [
    ['query', operation.query ?? NONE, queryOf(url)],
    ['headers', operation.headers, request.headers ?? {}],
    ['body', operation.body ?? z.undefined(), bodyOf(request)],
  ];
  for (const [part, schema, given] of checks) {
    const read = schema?.safeParse(given);
    if (read?.error) return `${shown}: ${part}: ${z.prettifyError(read.error)}`;
  }
  return undefined;
}

const NONE = z.strictObject({});

/** The path below the base; elsewhere every end of the path, the longest first. */
function below(url: URL, base: string): readonly string[] {
  if (url.host === new URL(base).host) {
    const [prefix] = patternOf(base, '').exec(url.origin + url.pathname) ?? [];
    return prefix === undefined ? [] : [(url.origin + url.pathname).slice(prefix.length)];
  }
  const segments = url.pathname.slice(1).split('/');
  return segments.map((_, at) => `/${segments.slice(at).join('/')}`);
}

function queryOf(url: URL): Record<string, string | readonly string[]> {
  const names = new Set(url.searchParams.keys());
  return Object.fromEntries([...names].map((name) => [name, single(url.searchParams.getAll(name))]));
}

/** A parameter that stands once is a text. */
function single(values: readonly string[]): string | readonly string[] {
  return values.length === 1 ? (values[0] as string) : values;
}

/** JSON, or a form where the request says so. */
function bodyOf({ body, headers }: HttpRequest): unknown {
  if (body === undefined) return undefined;
  const isForm = headers?.['content-type'] === 'application/x-www-form-urlencoded';
  return isForm ? Object.fromEntries(new URLSearchParams(body.toString())) : (JSON.parse(body.toString()) as unknown);
}

/** An object of JSON: what is named, and nothing else. */
export const fields = z.strictObject;
