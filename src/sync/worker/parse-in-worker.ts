import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../../platform/http/http-client.ts';
import { isSuccess } from '../../platform/http/semantics.ts';
import { LARGE } from '../../platform/lib/large.ts';
import { yieldToEventLoop } from '../../platform/lib/yield.ts';
import type { ReadLarge } from '../../workspace-api/large-answers.ts';
import type { Converter } from './converter.ts';

/**
 * The same client, with large answers to requests that say what they need read by the converter: they have `content` in place of
 * the body.
 */
export function parseInWorker(http: HttpClient, converter: Converter, from = LARGE): HttpClient {
  return {
    async request(request) {
      const answer = await http.request(request);
      const isRead = request.keep !== undefined && isSuccess(answer.status);
      return isRead && answer.body.length > from ? contentOf(request, answer, converter) : answer;
    },
    close: () => http.close(),
  };
}

/** Has large answers of the workspace read by the converter. */
export function readLargeBy(converter: Converter): ReadLarge {
  return async (route, body) => {
    const content = await converter.answer(route, body);
    // As above.
    await yieldToEventLoop();
    return content;
  };
}

async function contentOf(request: HttpRequest, answer: HttpAnswer, converter: Converter): Promise<HttpAnswer> {
  const { status, headers, body } = answer;
  try {
    const content = await converter.read(body, request.keep ?? true);
    // The transfer took a while, and so does the next step.
    await yieldToEventLoop();
    return { status, headers, body: Buffer.alloc(0), content };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const message = `${request.method} ${new URL(request.url).pathname}: ${error.message}`;
    throw new SyncError(error.code, message, { cause: error, status });
  }
}
