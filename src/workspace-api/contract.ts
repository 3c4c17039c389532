import { createHmac } from 'node:crypto';
import type { z } from 'zod';
import { SyncError } from '../model/errors.ts';
import { isSameSecret } from '../platform/lib/digest.ts';
import { agentRoutes } from './contract/agents.ts';
import { apiKeyRoutes } from './contract/api-keys.ts';
import { documentRoutes } from './contract/documents.ts';
import { fileRoutes } from './contract/files.ts';
import { HEADER_PREFIX, versionHeaderOf, webhookHeadersOf } from './contract/header-names.ts';
import { type ApiDescription, describeApi } from './contract/openapi.ts';
import { overridesOf } from './contract/overrides.ts';
import { pullRequestRoutes } from './contract/pull-requests.ts';
import { taskRoutes } from './contract/tasks.ts';
import { webhookRoutes } from './contract/webhooks.ts';
import { workItemRoutes } from './contract/work-items.ts';

/**
 * The workspace API, version 2: one definition for both ends. Each route stands once, in the file of its resource
 * under `contract/`, with the rules of `contract.md` that it follows.
 *
 * Requests are checked strictly by the service. Answers are read tolerantly by the client: unknown fields are kept,
 * unknown enum values are strings like any other, absent optional fields read as `null`, `[]` or `false`.
 */
export const ROUTES = {
  ...taskRoutes,
  ...workItemRoutes,
  ...documentRoutes,
  ...fileRoutes,
  ...pullRequestRoutes,
  ...apiKeyRoutes,
  ...webhookRoutes,
  ...agentRoutes,
};

export type Routes = typeof ROUTES;
export type RouteName = keyof Routes;

/** W5: sent with every request. */
export const VERSION_HEADER = versionHeaderOf(HEADER_PREFIX);
export const API_VERSION = '2';
/** W4: the end of every base address. */
export const BASE_PATH = '/api/v1';

/** OpenAPI 3.1 of all routes, under the headings that readers see; a plain JSON value. `missing` routes are left out. */
export function openApiDocument({ versionHeader = VERSION_HEADER, missing }: Partial<ApiDescription> = {}) {
  return describeApi({
    groups: {
      Tasks: taskRoutes,
      'Work-item links': workItemRoutes,
      Documents: documentRoutes,
      Files: fileRoutes,
      'Pull requests': pullRequestRoutes,
      'API keys': apiKeyRoutes,
      Webhooks: webhookRoutes,
      Agents: agentRoutes,
    },
    basePath: BASE_PATH,
    versionHeader,
    missing,
    version: API_VERSION,
  });
}

/** `workspace.api` of a workspace's configuration. */
export const apiOverrides = overridesOf(ROUTES);
export type ApiOverrides = z.infer<typeof apiOverrides>;

export { SESSION_STATES } from './contract/agents.ts';
export { HEADER_PREFIX, versionHeaderOf, webhookHeadersOf } from './contract/header-names.ts';
export type { Answered, CheckedBody, CheckedQuery, Parameters, Route, Written } from './contract/route.ts';
export { type ApiErrorCode, ERROR_CODES, fillPath, ID_PATTERN, LIMITS } from './contract/route.ts';
export type { WebhookEventType } from './contract/webhooks.ts';

export type WebhookHeaders = Readonly<ReturnType<typeof webhookHeadersOf>>;

/** Headers of a delivery by the reference service. */
export const WEBHOOK_HEADERS = webhookHeadersOf(HEADER_PREFIX);

/** `sha256=<hex>`: HMAC of the body as it is sent. */
export function signWebhook(body: string | Buffer, secret: string): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** The receiver's side of a subscription. A delivery must match each value that is given. */
type WebhookCredentials =
  | { readonly secret: string; readonly key?: string }
  | { readonly secret?: string; readonly key: string };

/**
 * Checks that a request comes from the workspace: the signature over the raw bytes, the shared key, or both, in
 * constant time. Throws `signature_missing` and `signature_mismatch`.
 *
 * @param headers names in lower case, as Node gives them
 * @param names the server's header names
 */
export function verifyWorkspaceWebhook(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  rawBody: string | Buffer,
  { secret, key }: WebhookCredentials,
  names: WebhookHeaders = WEBHOOK_HEADERS,
): void {
  if (secret !== undefined) compare(headers, names.signature, signWebhook(rawBody, secret));
  if (key !== undefined) compare(headers, names.key, key);
}

function compare(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  name: string,
  expected: string,
): void {
  const given = headers[name];
  if (typeof given !== 'string') throw new SyncError('signature_missing', `the header ${name} is missing`);
  if (isSameSecret(given, expected)) return;
  throw new SyncError('signature_mismatch', `the header ${name} is not what the subscription's secret makes`);
}
