import { z } from 'zod';
import { SyncError } from '../errors/sync-error.ts';
import { JsonError, parseJson } from '../http/json.ts';
import type { ServerRequest } from '../http/server.ts';

/** The body of a question to the daemon. Throws `body_invalid`, which names every place that is wrong. */
export function bodyOf<Body>({ body }: Pick<ServerRequest, 'body'>, schema: z.ZodType<Body>): Body {
  const checked = schema.safeParse(read(body));
  if (checked.success) return checked.data;
  const places = checked.error.issues.map(({ path, message }) => `${path.join('.') || 'the body'}: ${message}`);
  throw new SyncError('body_invalid', places.join('\n'));
}

/** No body stands for an empty object. */
function read(body: unknown): unknown {
  if (!Buffer.isBuffer(body) || body.length === 0) return {};
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('body_invalid', `the body: ${error.message}`, { cause: error });
    throw error;
  }
}

const text = z.string().min(1).max(1_000);

export const nothing = z.strictObject({});

/** Whom a link logs in: the role, and the workspaces it is limited to (null: all that the caller reaches). */
export const loginWish = z.strictObject({
  role: z.enum(['read', 'admin']),
  workspaces: z.array(text).min(1).max(1_000).nullable(),
});

export const newGatewayToken = z.strictObject({ description: text });
export const gatewayTokenId = z.strictObject({ id: text });

/** Whatever there is, unchecked. */
export const anything = z.unknown();
