import { z } from 'zod';
import { hintOf } from '../../model/errors.ts';
import { listRefused, type RefusedRequest } from '../../store/access/refused-requests.ts';
import type { Sql } from '../../store/workspace-scope.ts';
import { countSchema, operation } from '../open-workspace.ts';

export interface Refused extends Omit<RefusedRequest, 'key'> {
  readonly reason: string;
}

/**
 * Returns the refused requests of these workspaces; null: of all, and those that name no workspace, which only administrators of
 * all may see. Requests with the same method, path, status, code and address are one entry with a count.
 */
export async function refusedRequests(
  query: Sql,
  asked: { readonly workspaces: readonly string[] | null; readonly limit: number },
): Promise<readonly Refused[]> {
  const rows = await listRefused(query, asked);
  return rows.map(({ key: _key, ...row }) => ({ ...row, reason: reasonOf(row) }));
}

/** Reasons of codes that are not in the registry of errors. */
const REASONS_BY_CODE: Readonly<Record<string, string>> = {
  not_found:
    'No workspace or connection has this address: webhooks go to /webhooks/<workspace>/<connection>, with names as "worksync status" prints them.',
  workspace_unavailable: 'The workspace is configured and did not open; the sender was asked to repeat the request.',
  payload_too_large: 'The body is larger than this address accepts.',
  unauthorized: 'The credential is missing, wrong or revoked.',
  workspace_forbidden: 'The credential does not belong to the workspace that the path names.',
  rate_limit_exceeded: 'No slot of the quota was free in time, or the address sent too many wrong credentials.',
  bad_request: 'The request is malformed, or does not say which workspace it is for.',
  internal: 'worksync itself failed; its log says why.',
};

const WORKSPACE_WEBHOOK = /^\/webhooks\/[^/]+\/workspace$/;

const REASONS_BY_STATUS: Readonly<Record<number, string>> = {
  400: 'The request is malformed.',
  405: 'The address takes POST only.',
  408: 'The request did not arrive in time.',
  413: 'The body is larger than this address accepts.',
  415: 'The body is compressed, or has a type that is not accepted.',
  429: 'Too many requests of this address had to be refused.',
  503: 'worksync could not take the request at that moment; the sender was asked to repeat it.',
};

/** The keys of the workspace's own webhooks are on no provider's page, so they need another hint. */
const REASON_OF_WORKSPACE =
  'The key or the signature in the headers is missing or wrong: compare workspace.webhook (key, secret, headers) with the subscription at the workspace.';

/** Pure. Returns the reason of a refusal, for people. */
function reasonOf({ code, status, path }: Pick<RefusedRequest, 'code' | 'status' | 'path'>): string {
  if (status === 401 && WORKSPACE_WEBHOOK.test(path)) return REASON_OF_WORKSPACE;
  // The hint of `refused` refers to a message, and a stored request has none.
  const byCode = REASONS_BY_CODE[code] ?? (code === 'refused' ? undefined : hintOf(code));
  return byCode ?? REASONS_BY_STATUS[status] ?? `The answer was ${status}.`;
}

export const refusedSchema = z.strictObject({ limit: countSchema });

export const refusedOperations = {
  /** Returns the refused requests of one workspace, the latest first, with a delay of some seconds. */
  refused: operation({
    body: refusedSchema,
    run: ({ store, name }, { limit }) => refusedRequests(store.query.whole, { workspaces: [name], limit }),
  }),
};
