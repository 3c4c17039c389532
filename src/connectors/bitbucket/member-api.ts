import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { ConnectionDeps, MemberAccess } from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { readAnswer, readable } from '../kit/json.ts';
import { createApi } from './api.ts';
import { HOST } from './options.ts';

/** The API with a member's own token. Throws `SyncError`. */
export interface MemberApi {
  get(path: string, query?: Readonly<Record<string, string>>): Promise<unknown>;
  /** Sends a write once. Answers 2xx and 400, whose errors the caller understands. */
  write(method: 'POST' | 'PUT', path: string, body: unknown): Promise<HttpAnswer>;
}

export function createMemberApi(access: MemberAccess, deps: ConnectionDeps, signal: AbortSignal): MemberApi {
  if (access.host !== HOST)
    throw new SyncError('refused', `${access.host}: Bitbucket Cloud is ${HOST} alone`, {
      errorCode: 'validation_failed',
    });
  const api = createApi({ ...credentialOf(access.token), apiUrl: access.apiUrl }, deps);
  return {
    get: (path, query) => api.read(path, { query: query && new URLSearchParams(query).toString(), signal }),
    write: (method, path, body) => api.write(method, path, body, signal),
  };
}
/** An API token of a person goes with their e-mail address, as `email:token`; an access token stands alone. */
function credentialOf(token: string) {
  const [, email, apiToken] = /^([^\s:@]+@[^\s:@]+):(.+)$/.exec(token) ?? [];
  return email === undefined || apiToken === undefined ? { token } : { email, apiToken };
}

const refusedAnswer = z.object({
  error: z.object({
    message: z.string().catch(''),
    fields: z.record(z.string(), z.unknown()).catch({}),
  }),
});

/** What a 400 says, on one line, and which fields it is about. */
export interface Complaint {
  readonly text: string;
  readonly fields: readonly string[];
}

export function readComplaint(answer: HttpAnswer): Complaint {
  const told = readable(refusedAnswer, readAnswer(answer, 'a refusal'));
  if (!told) return { text: 'no reason was given', fields: [] };
  const { message, fields } = told.error;
  const details = Object.entries(fields).map(([name, said]) => `${name}: ${[said].flat().join(', ')}`);
  const text = [message, ...details.filter((detail) => !message.includes(detail))].filter((part) => part !== '');
  return {
    text: onOneLine(text.join('; '), 300),
    fields: Object.keys(fields),
  };
}
