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
    .map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`))
    .join('; ');
}
