import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { ConnectionDeps, MemberAccess } from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { readAnswer } from '../kit/json.ts';
import { refusal } from './answers.ts';
import { type Api, createApi, headersOf } from './api.ts';
import { apiBase, HOST } from './options.ts';

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
  const options = { ...credentialOf(access.token), apiUrl: access.apiUrl };
  const api: Api = createApi(options, deps);
  return {
    async get(path, query) {
      const text = query && new URLSearchParams(query).toString();
      return readAnswer(await api.get(path, text, signal), `GET ${path}`);
    },
    async write(method, path, body) {
      const answer = await deps.http.request({
        method,
        url: apiBase(options) + path,
        headers: { ...headersOf(options), 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal,
        target: 'bitbucket',
      });
      if ((answer.status >= 200 && answer.status <= 299) || answer.status === 400) return answer;
      throw refusal(answer, `${method} ${path}`, deps.clock.now());
    },
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
  const read = refusedAnswer.safeParse(readAnswer(answer, 'a refusal'));
  if (!read.success) return { text: 'no reason was given', fields: [] };
  const { message, fields } = read.data.error;
  const details = Object.entries(fields).map(([name, said]) => `${name}: ${[said].flat().join(', ')}`);
  const text = [message, ...details.filter((detail) => !message.includes(detail))].filter((part) => part !== '');
  return {
    text: onOneLine(text.join('; '), 300),
    fields: Object.keys(fields),
  };
}
