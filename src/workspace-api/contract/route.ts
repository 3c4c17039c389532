import type { z } from 'zod';
import { ID_PATTERN } from './value-schemas.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * One route of the workspace API as data. Both ends read it: the service registers it and checks requests with it,
 * the client fills its path and reads answers with it.
 */
export interface Route {
  readonly method: Method;
  /** Relative to the base address; `{name}` stands for an id. */
  readonly path: string;
  /** A second path that the service serves (W12). */
  readonly alsoAt?: string;
  /** A second method that the service serves (W37). */
  readonly alsoBy?: Method;
  readonly summary: string;
  /** Rules of `contract.md` that it follows, such as `W29, W36`. */
  readonly rules: string;
  /** `user`: OAuth token only; `admin`: OAuth token of an owner or admin; absent: API key or OAuth token. */
  readonly access?: 'user' | 'admin';
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** Body of a success; absent if it has none. */
  readonly response?: z.ZodType;
  /** The secrets in it, which the server shows once. */
  readonly secrets?: readonly string[];
  /** Statuses of a success, the usual one first; absent: 204 without a response, 201 of POST, else 200. */
  readonly success?: readonly number[];
  /** Whether clients change the resource as a whole: answers then keep the body as written, and changes take `ifMatch`. */
  readonly isEditable?: true;
}

/** Names of the placeholders of a path template. */
type PathParameter<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathParameter<Rest>
  : never;

type Query<R> = R extends { query: infer S extends z.ZodType } ? { readonly query?: z.input<S> } : unknown;
type Condition<R> = R extends { isEditable: true; body: z.ZodType } ? { readonly ifMatch?: string } : unknown;
type Body<R> = R extends { body: infer S extends z.ZodType } ? { readonly body: z.input<S> } : unknown;

/** The input of a caller: the ids of the path except the workspace's, which the client has; `query`; `body`. */
export type Parameters<R extends Route> = {
  readonly [Name in Exclude<PathParameter<R['path']>, 'workspaceId'>]: string;
} & Query<R> &
  Body<R> &
  Condition<R>;

/** Body of a success, as read. */
export type Answered<R extends Route> = R extends { response: infer S extends z.ZodType } ? z.output<S> : undefined;

/** Body of a success, as the service writes it. */
export type Written<R extends Route> = R extends { response: infer S extends z.ZodType } ? z.input<S> : undefined;

/** Query and body as the service has checked them. */
export type CheckedQuery<R extends Route> = R extends { query: infer S extends z.ZodType } ? z.output<S> : undefined;
export type CheckedBody<R extends Route> = R extends { body: infer S extends z.ZodType } ? z.output<S> : undefined;

/** Names of the placeholders of a path template, in order. */
export function parametersOf(template: string): string[] {
  return Array.from(template.matchAll(/\{(\w+)\}/g), (match) => match[1]!);
}

/**
 * Fills a path template with ids. Every id is checked and encoded, so that no id can leave its segment.
 * Throws `RangeError` with the parameter's name, never with its value.
 */
export function fillPath(template: string, ids: Readonly<Record<string, unknown>>): string {
  return template.replace(/\{(\w+)\}/g, (_whole, name: string) => {
    const id = ids[name];
    if (typeof id !== 'string' || !ID_PATTERN.test(id)) throw new RangeError(`${name} is not a valid id`);
    return encodeURIComponent(id);
  });
}

/** The statuses of a success, the usual one first. */
export function successesOf({ success, response, method }: Route): readonly number[] {
  return success ?? [response === undefined ? 204 : method === 'POST' ? 201 : 200];
}
