import { z } from 'zod';
import { identifiedOnly, idText, namesIn, timeText } from '../../platform/lib/shape.ts';

/** Limits of W49, W51, W10 and W11. Lengths of text are UTF-16 code units. */
export const LIMITS = {
  title: 255,
  text: 200_000,
  page: { default: 50, largest: 100 },
  activeKeys: 20,
  /** Webhook subscriptions of a workspace. */
  webhooks: 20,
  jsonBody: 1_048_576,
  /** Text operations of one patch (W49). */
  operations: 100,
  /** Bytes of an uploaded file (W51): 10 and 100 MB. */
  image: 10_000_000,
  video: 100_000_000,
} as const;

/** Ids as they may stand in a path: no separator, no dot, nothing to escape. */
export const ID_PATTERN = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * A value of an answer whose list of values may grow: the reader accepts any string, so that a new value never breaks it.
 * The known values are published as `x-extensible-enum`.
 */
export function openEnum(values: readonly string[], otherwise = '') {
  return z.string().catch(otherwise).meta({ 'x-extensible-enum': values });
}

/**
 * Fields of answers. Only `id`, `url` and `cursor` can fail an answer. Every other field that is missing, null or of
 * another type reads as its default. Unknown fields are kept.
 */
export const answered = {
  /** Identifies a thing: an answer without it has no meaning. A number reads as text. */
  id: z.preprocess(idText, z.string()),
  /** Identifies a link or a file. */
  url: z.string(),
  /** A cursor of an unknown type must not read as the end of the list. A number reads as text. */
  cursor: z.preprocess(
    (value) => (typeof value === 'number' ? idText(value) : value),
    z.string().nullable().default(null),
  ),
  text: z.string().nullable().catch(null),
  string: z.string().catch(''),
  /** Objects in the list read as their names. */
  strings: z.preprocess(namesIn, z.array(z.string())),
  /** A number reads as an epoch time. */
  time: z.preprocess(timeText, z.string().nullable()).meta({ format: 'date-time', description: 'RFC 3339, UTC' }),
  flag: z.boolean().catch(false),
} as const;

/**
 * A list in its envelope. Elements that lack an id are dropped, and `unreadable` says how many there were: such a list
 * does not prove that anything is absent. The field is missing where no element was dropped.
 *
 * @param identity fields that every element must have
 */
export function listOf<const Name extends string, Element extends z.ZodType, More extends z.ZodRawShape>(
  name: Name,
  element: Element,
  identity: readonly string[],
  more: More,
) {
  const shape = { [name]: z.array(element), ...more } as { readonly [Key in Name]: z.ZodArray<Element> } & More;
  return z.preprocess((value) => identifiedOnly(value, name, identity), z.looseObject(shape));
}

/** Fields of requests. */
export const sent = {
  title: z.string().trim().min(1).max(LIMITS.title),
  text: z.string().max(LIMITS.text).nullable(),
  strings: z.array(z.string().min(1).max(LIMITS.title)).max(100),
  ids: z.array(z.string().regex(ID_PATTERN)).max(100),
  url: z.string().max(2_048).refine(isHttpUrl, 'must be an http or https address').meta({ format: 'uri' }),
  time: z
    .string()
    .refine(isTimestamp, 'must be an RFC 3339 time with offset')
    .meta({ format: 'date-time' })
    .transform((text) => new Date(text).toISOString()),
  name: z.string().min(1).max(LIMITS.title),
} as const;

/**
 * Query parameters: what a caller may pass, and the text that arrives. Each ends in the type that is meant, which is
 * what the OpenAPI document shows.
 */
export const asked = {
  flag: z.union([z.boolean(), z.enum(['true', 'false']).transform((text) => text === 'true')]).pipe(z.boolean()),
  limit: z
    .union([
      z.number(),
      z
        .string()
        .regex(/^\d{1,4}$/)
        .transform(Number),
    ])
    .pipe(z.int().min(1).max(LIMITS.page.largest)),
  /** Repeatable, or a comma list. */
  list: z
    .union([z.string(), z.array(z.string())])
    .transform((given) => [given].flat().flatMap((text) => text.split(',')))
    .pipe(z.array(z.string())),
  text: z.string().min(1).max(LIMITS.title),
  cursor: z.string().max(128),
} as const;

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.protocol === 'https:' || url.protocol === 'http:');
}

const TIMESTAMP = z.iso.datetime({ offset: true });

/** zod allows a time without seconds, RFC 3339 does not. */
function isTimestamp(text: string): boolean {
  return /T\d\d:\d\d:\d\d/.test(text) && TIMESTAMP.safeParse(text).success;
}

const MAX_PROBLEMS = 5;

/** Names the fields of a query or a body that break the contract, and says how. */
export function problemsOf({ issues }: z.ZodError): string {
  return issues
    .slice(0, MAX_PROBLEMS)
    .map(({ path, message }) => [...(path.length === 0 ? [] : [path.join('.')]), wordsOf(message)].join(': '))
    .join('; ');
}

function wordsOf(message: string): string {
  return message.endsWith('received undefined') ? 'missing' : message.replace(/^(Invalid|Too) \w+: /, '');
}

/**
 * Values of `errorCode` by the status that carries them (W71 and the rules that name further ones).
 * Clients branch on these, never on `message`.
 */
export const ERROR_CODES = {
  bad_request: 400,
  validation_failed: 400,
  unsupported_api_version: 400,
  unsupported_field: 400,
  branch_not_found: 400,
  no_commits_between: 400,
  unauthorized: 401,
  forbidden: 403,
  oauth_token_required: 403,
  api_key_not_allowed: 403,
  workspace_forbidden: 403,
  provider_not_connected: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  api_key_limit_reached: 409,
  pull_request_exists: 409,
  pull_request_declined: 409,
  patch_target_not_found: 409,
  patch_target_ambiguous: 409,
  session_already_claimed: 409,
  invalid_transition: 409,
  claim_ended: 409,
  precondition_failed: 412,
  payload_too_large: 413,
  rate_limit_exceeded: 429,
  internal_error: 500,
  storage_full: 507,
  provider_unavailable: 502,
  outcome_unknown: 504,
} as const;

export type ApiErrorCode = keyof typeof ERROR_CODES;

/** The error object (W66): `code` is the HTTP status. */
export const errorObject = z.looseObject({
  code: z.int().meta({ description: 'the HTTP status', examples: [404] }),
  message: z.string(),
  errorCode: z.string().meta({ 'x-extensible-enum': Object.keys(ERROR_CODES) }),
});

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
