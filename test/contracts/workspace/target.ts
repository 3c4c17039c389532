import { afterAll, beforeAll, expect } from 'vitest';
import type { Role } from '../../../src/reference-service/storage/service-tables.ts';
import { NO_QUOTA, startWorkspaceService, type TestService } from '../../support/fakes/workspace-service.ts';

/**
 * The server under test: the reference service, or the one that `WORKSPACE_URL` (ending in /api/v1) and
 * `WORKSPACE_TOKEN` (an OAuth token of a workspace owner) name. API keys are made through its own API.
 */
export interface Target {
  readonly url: string;
  readonly token: string;
  readonly key: string;
  readonly keyId: string;
  readonly workspaceId: string;
  /** The reference service itself; undefined for another server. */
  readonly embedded: TestService | undefined;
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: ReturnType<JSON['parse']>;
}

export interface Asked {
  /** The owner's token unless told; `null` sends no credential. */
  readonly as?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** A JSON value; a string or bytes go out as they are. */
  readonly body?: unknown;
}

export const isEmbedded = process.env['WORKSPACE_URL'] === undefined;

/** Starts or finds the server for the tests of a file; read the result inside tests only. */
export function useTarget(): { readonly it: Target } {
  const held: { it?: Target } = {};
  beforeAll(async () => {
    held.it = isEmbedded ? await embeddedTarget() : await otherTarget();
  });
  afterAll(async () => {
    await held.it?.embedded?.close();
    if (held.it && !isEmbedded) await ask(held.it, 'DELETE', `/workspaces/current/api-keys/${held.it.keyId}`);
  });
  return held as { it: Target };
}

async function embeddedTarget(): Promise<Target> {
  const embedded = await startWorkspaceService({ quota: NO_QUOTA });
  const { url, oauthToken, apiKey, apiKeyId, workspaceId } = embedded;
  return { url, token: oauthToken, key: apiKey, keyId: apiKeyId, workspaceId, embedded };
}

async function otherTarget(): Promise<Target> {
  const found = { url: process.env['WORKSPACE_URL']!, token: process.env['WORKSPACE_TOKEN']! };
  const made = await ask(found, 'POST', '/workspaces/current/api-keys', { body: { description: 'contract suite' } });
  const { secret, apiKeyId, workspaceId } = made.body;
  return { ...found, key: secret, keyId: apiKeyId, workspaceId, embedded: undefined };
}

export async function ask(
  target: Pick<Target, 'url' | 'token'>,
  method: string,
  path: string,
  { as = target.token, headers, body }: Asked = {},
): Promise<Reply> {
  const response = await fetch(target.url + path, {
    method,
    headers: {
      'x-service-api-version': '2',
      ...(as === null ? {} : { authorization: `Bearer ${as}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: bytesOf(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: text === '' ? undefined : JSON.parse(text) };
}

function bytesOf(body: unknown): string | Uint8Array<ArrayBuffer> | undefined {
  if (body === undefined || typeof body === 'string') return body;
  return body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body);
}

const ROOT = '/workspaces/current';
export const ID = expect.stringMatching(/^[A-Za-z0-9_-]{1,64}$/);
export const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
export const TEXT = expect.stringMatching(/./);

export function requestsTo(held: { readonly it: Pick<Target, 'url' | 'token'> }) {
  const call = (method: string, path: string, body?: unknown, more: Asked = {}) =>
    ask(held.it, method, ROOT + path, { ...more, body });
  const create = async (path: string, body: object) => {
    const reply = await call('POST', path, body);
    expect(reply.status).toBe(201);
    return reply.body;
  };
  const newTask = async (): Promise<string> => (await create('/bugs', { title: unique('task') })).taskId;
  return { call, create, newTask };
}

export async function tokenOf({ it }: { readonly it: Target }, role: Role, more: object = {}): Promise<string> {
  const { service } = it.embedded!;
  const { workspaceId } = it;
  const userId = await service.addUser({ workspaceId, name: role, role });
  return (await service.mintToken({ workspaceId, userId, role, ttl: null, ...more })).secret;
}

/** Makes natural keys, titles and addresses that no other test or run uses. */
export function unique(prefix: string): string {
  return `${prefix}-${crypto.randomUUID().slice(0, 13)}`;
}
