import { z } from 'zod';
import { SyncError } from '../model/errors/sync-error.ts';
import { JsonError, parseJson } from '../platform/http/parse-json.ts';
import type { ServerRequest } from '../platform/http/server.ts';
import { ROUTES, type RouteName } from '../workspace-api/contract.ts';
import type { ApiRequest } from '../workspace-api/exchange.ts';

/** Returns the body of an admin operation. Throws `body_invalid`, which names every wrong place. */
export function bodyOf<Body>({ body }: Pick<ServerRequest, 'body'>, schema: z.ZodType<Body>): Body {
  const checked = schema.safeParse(read(body));
  if (checked.success) return checked.data;
  const places = checked.error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
  throw new SyncError('body_invalid', places.join('\n'));
}

/** No body counts as an empty object. */
function read(body: unknown): unknown {
  if (!Buffer.isBuffer(body) || body.length === 0) return {};
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('body_invalid', `the body: ${error.message}`, { cause: error });
    throw error;
  }
}

/** A path below the base address of the workspace, without a host or a step upwards in any spelling. */
const PATH = /^(?:\/(?!\.{1,2}(?:\/|$))(?:[A-Za-z0-9._~!'()*-]|%(?!2[eEfF]|5[cC]|25|00)[0-9A-Fa-f]{2})+)+$/;

/** A request that a command sends to the workspace. */
export const apiRequest: z.ZodType<ApiRequest> = z.strictObject({
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE']),
  path: z.string().max(4_000).regex(PATH, 'expected a path below the base address of the API'),
  query: z
    .string()
    .max(16_000)
    .regex(/^[^#\s]*$/, 'expected an encoded query')
    .optional(),
  headers: z.record(
    z.string().regex(/^[\w-]{1,100}$/),
    z
      .string()
      .max(4_000)
      .regex(/^[^\r\n]*$/),
  ),
  body: z.unknown().optional(),
  route: z.custom<RouteName>((name) => typeof name === 'string' && Object.hasOwn(ROUTES, name), 'expected a route'),
});

/** The longest wait of a caller for the quota, milliseconds: `?patience=`. */
export function patienceOf({ query }: ServerRequest): number {
  const { patience } = query as { readonly patience?: unknown };
  return typeof patience === 'string' && /^\d{1,9}$/.test(patience) ? Number(patience) : 0;
}
