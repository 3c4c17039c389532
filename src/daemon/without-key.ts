import type { HttpAnswer } from '../http/http-client.ts';
import { createScrubber } from '../observe/scrubber.ts';

/** Up to so many bytes an answer is searched for the key however it is encoded, a longer one for the key as it is. */
const SHORT = 65_536;

/**
 * The answer without our key, should the workspace repeat what it was sent: a caller with a token of ours gets that answer, and
 * must not learn the key that the token stands for.
 */
export function withoutKey(answer: HttpAnswer, key: string): HttpAnswer {
  const { scrub } = createScrubber([key]);
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, scrub(value)]));
  return {
    ...answer,
    headers,
    body: answer.body.length <= SHORT ? scrubbed(answer.body, scrub) : masked(answer.body, key),
  };
}

/** Bytes that are no text stay as they are. */
function scrubbed(body: Buffer, scrub: (text: string) => string): Buffer {
  const text = body.toString('latin1');
  const clean = scrub(text);
  return clean === text ? body : Buffer.from(clean, 'latin1');
}

/** As long as it was. */
function masked(body: Buffer, key: string): Buffer {
  const bytes = Buffer.from(key);
  for (let at = body.indexOf(bytes); at !== -1; at = body.indexOf(bytes, at + bytes.length))
    body.fill('*', at, at + bytes.length);
  return body;
}
