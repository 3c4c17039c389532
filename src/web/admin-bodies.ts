import { z } from 'zod';
import type { AdminOperation, Asked } from '../admin/admin-operations.ts';
import { CHANGE_STATES, HELD_CLASSES } from '../model/change.ts';
import { DELIVERY_SOURCES, DELIVERY_STATES } from '../model/delivery.ts';
import { SyncError } from '../model/errors/sync-error.ts';
import { SYNC_FIELD_NAMES } from '../model/synced-fields.ts';
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

const text = z.string().min(1).max(4_000);

export const nothing = z.strictObject({});

/** The rights of a login link: the role, and the workspaces (null: all that the caller may access). */
export const loginWish = z.strictObject({
  role: z.enum(['read', 'admin']),
  workspaces: z.array(text).min(1).max(1_000).nullable(),
});

export const forgottenWorkspace = z.strictObject({ workspace: text });

export const newGatewayToken = z.strictObject({ description: text });
export const gatewayTokenId = z.strictObject({ id: text });

const count = z.int().min(0).max(1_000_000);
const changesNamed = z.strictObject({ targets: z.array(text).min(1).max(1_000) });
const wishOfHooks = { publicUrl: text.optional() };

const releaseWish = z.strictObject({
  classes: z.array(z.enum(HELD_CLASSES)).optional(),
  entities: z.array(text).max(100_000).optional(),
});

const quarantineWish = z.strictObject({ ids: z.array(z.int().positive()).min(1).max(10_000).optional() });

export const refusedWish = z.strictObject({ limit: count });

export const auditWish = z.strictObject({
  since: z.int().min(0).nullable(),
  before: z.int().positive().nullable(),
  limit: z.int().min(1).max(1_000),
});

const wantedDeliveries = {
  about: text.optional(),
  state: z.enum(DELIVERY_STATES).optional(),
  connection: text.optional(),
  source: z.enum(DELIVERY_SOURCES).optional(),
  own: z.boolean().optional(),
};
const numberOfDelivery = z.int().positive();

const ciText = z.string().min(1).max(1_000);

/** The query of a CI job: `?target=…` up to three times, the most certain first, and `&provider=…`. */
export const pullRequestWish = z.strictObject({
  target: z.union([ciText.transform((one) => [one]), z.array(ciText).max(3)]),
  provider: z.string().max(64).optional(),
});

/** The body of each admin operation. */
export const QUESTION_BODIES: { readonly [Name in AdminOperation]: z.ZodType<Asked<Name>> } = {
  held: z.strictObject({ samples: count }),
  release: releaseWish,
  changes: z.strictObject({ states: z.array(z.enum(CHANGE_STATES)).optional(), limit: count }),
  'changes-show': changesNamed,
  'changes-retry': changesNamed,
  'changes-drop': changesNamed,
  quarantine: z.strictObject({ limit: count }),
  retry: quarantineWish,
  dismiss: quarantineWish,
  plan: z.strictObject({ limit: count }),
  lab: z.strictObject({ config: z.string().max(524_288), limit: count }),
  apply: z.strictObject({ id: text }),
  backfill: z.strictObject({ connection: text, since: text.nullable() }),
  'backfill-progress': z.strictObject({ connection: text }),
  'backfill-pause': z.strictObject({ connection: text }),
  'backfill-resume': z.strictObject({ connection: text }),
  'backfill-stop': z.strictObject({ connection: text }),
  hooks: z.strictObject({ connection: text.optional(), ...wishOfHooks }),
  'hooks-install': z.strictObject({ connection: text, ...wishOfHooks }),
  rebind: z.strictObject({ connection: text }),
  'scope-names': z.strictObject({ connection: text }),
  deliveries: z.strictObject({
    ...wantedDeliveries,
    limit: z.int().min(1).max(200),
    before: numberOfDelivery.optional(),
  }),
  delivery: z.strictObject({ delivery: text }),
  replay: z.strictObject({
    ...wantedDeliveries,
    ids: z.array(numberOfDelivery).min(1).max(10_000).optional(),
    preview: z.boolean(),
  }),
  items: z.strictObject({ name: text }),
  explain: z.strictObject({ target: text }),
  'link-target': z.strictObject({ target: text }),
  'link-added': z.strictObject({
    taskId: text,
    workItem: z.looseObject({ workItemId: text, url: z.string() }),
    item: text.nullable(),
  }),
  'link-to-remove': z.strictObject({ taskId: text, link: text }),
  'link-removed': z.strictObject({ taskId: text, link: text }),
  'release-status': z.strictObject({ task: text }),
  'release-field': z.strictObject({ task: text, field: z.enum(SYNC_FIELD_NAMES) }),
  unfinished: z.strictObject({ limit: z.int().min(1).max(200) }),
  'status-undo': z.strictObject({ task: text }),
  sweep: nothing,
  'sweep-progress': nothing,
  quota: nothing,
  'quota-by-caller': nothing,
  refused: refusedWish,
  postpone: z.discriminatedUnion('question', [
    z.strictObject({ question: z.literal('release'), asked: releaseWish }),
    z.strictObject({ question: z.literal('retry'), asked: quarantineWish }),
    z.strictObject({ question: z.literal('dismiss'), asked: quarantineWish }),
    z.strictObject({ question: z.literal('changes-retry'), asked: changesNamed }),
    z.strictObject({ question: z.literal('changes-drop'), asked: changesNamed }),
  ]),
  postponed: nothing,
  undo: z.strictObject({ id: text }),
  audit: auditWish,
};

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
