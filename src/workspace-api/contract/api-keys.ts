import { z } from 'zod';
import { answered, listOf, openEnum, type Route, sent } from './route.ts';

/** W24. */
const apiKey = z
  .looseObject({
    apiKeyId: answered.id,
    workspaceId: answered.string,
    description: answered.string,
    status: openEnum(['active', 'revoked']),
    keyPrefix: answered.string,
    createdByUserId: answered.text,
    createdAt: answered.time,
    lastUsedAt: answered.time,
    revokedAt: answered.time,
  })
  .meta({ id: 'ApiKey' });

export const apiKeyRoutes = {
  /** W25. `{apiKeys}` without secrets, newest first. OAuth token of an owner or admin. */
  listApiKeys: {
    method: 'GET',
    path: '/workspaces/{workspaceId}/api-keys',
    summary: 'List API keys',
    rules: 'W25',
    access: 'admin',
    response: listOf('apiKeys', apiKey, ['apiKeyId'], {}),
  },
  /** W19, W24. The key with its one-time `secret`. Errors: 409 `api_key_limit_reached` at 20 active keys. */
  createApiKey: {
    method: 'POST',
    path: '/workspaces/{workspaceId}/api-keys',
    summary: 'Create an API key',
    rules: 'W19, W24',
    access: 'admin',
    body: z.object({ description: sent.title }),
    response: apiKey.extend({ secret: z.string() }),
    secrets: ['secret'],
  },
  /** W22, W25. 204; effective at once. Errors: 404. */
  revokeApiKey: {
    method: 'DELETE',
    path: '/workspaces/{workspaceId}/api-keys/{apiKeyId}',
    summary: 'Revoke an API key',
    rules: 'W22, W25',
    access: 'admin',
  },
} as const satisfies Record<string, Route>;
