import { z } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { ConnectionDeps, MemberAccess } from '../connector.ts';
import type { Method } from '../kit/git-api.ts';
import { absent, parseAnswer, readAnswer } from '../kit/payload.ts';
import { onOneLine } from '../kit/refusal.ts';
import { bearer } from '../kit/rest.ts';
import { refusal } from './answers.ts';
import { type Api, createApi } from './api.ts';
import { createAuth } from './auth.ts';
import { apiBase } from './options.ts';

/** The API with a member's own token. Throws `SyncError`. */
export interface MemberApi extends Pick<Api, 'get' | 'read'> {
  /** Sends a write once. Resolves with 2xx, and with 422, whose errors the caller explains. */
  write(method: Method, path: string, body: unknown): Promise<HttpAnswer>;
  /** Runs a GraphQL mutation. GitHub sends errors of GraphQL with status 200; this throws them. */
  mutate(query: string, variables: Readonly<Record<string, string>>): Promise<unknown>;
}

export function createMemberApi(access: MemberAccess, deps: ConnectionDeps, signal: AbortSignal): MemberApi {
  const { http, clock } = deps;
  const api = createApi(access, deps, createAuth(access, deps));
  // GitHub counts GraphQL apart, so these answers tell nothing of the limit of REST.
  const url = graphqlUrl(apiBase(access));
  const headers = {
    accept: 'application/json',
    'user-agent': 'worksync',
    'content-type': 'application/json',
    ...bearer(access.token),
  };
  return {
    ...api,
    write: (method, path, body) => api.write(method, path, { body, explained: [422], signal }),
    async mutate(query, variables) {
      const body = JSON.stringify({ query, variables });
      const answer = await http.request({ method: 'POST', url, headers, body, signal, target: 'github' });
      if (answer.status !== 200) throw refusal(answer, 'POST /graphql', clock.now());
      const { data, errors } = parseAnswer(graphqlAnswer, readAnswer(answer, 'POST /graphql'), 'POST /graphql');
      if (errors?.[0]) throw graphqlFailure(errors[0]);
      return data;
    },
  };
}

const graphqlError = z.object({ type: z.unknown(), message: z.unknown() });
const graphqlAnswer = z.object({ data: z.unknown(), errors: absent(z.array(graphqlError)) });

/** A self-hosted server has REST at `/api/v3` and GraphQL at `/api/graphql` (GH7). */
function graphqlUrl(base: string): string {
  return base.endsWith('/api/v3') ? base.replace(/\/v3$/, '/graphql') : `${base}/graphql`;
}

function graphqlFailure({ type, message }: z.infer<typeof graphqlError>): SyncError {
  const said = `GraphQL: ${onOneLine(String(message))}`;
  if (type === 'FORBIDDEN' || type === 'INSUFFICIENT_SCOPES') return new SyncError('forbidden', said);
  if (type === 'NOT_FOUND') return new SyncError('not_found', said);
  if (type === 'RATE_LIMITED') return new SyncError('rate_limited', said);
  return new SyncError('refused', said);
}
