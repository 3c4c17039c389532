import type { HttpAnswer } from '../platform/http/http-client.ts';
import { yieldForRequests } from '../platform/lib/yield.ts';
import { createScrubber } from '../platform/observe/scrubber.ts';

/** Bytes that are searched at a time: about ten milliseconds. */
const PIECE = 1_048_576;
/** No form of a key is longer, characters. */
const LONGEST_FORM = 16_384;

/**
 * The answer without our key, should the workspace repeat what it was sent: a caller with a token of ours gets that answer, and
 * must not learn the key that the token stands for, however it is encoded.
 */
export async function withoutKey(answer: HttpAnswer, key: string): Promise<HttpAnswer> {
  const { scrub } = createScrubber([key]);
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, scrub(value)]));
  return { ...answer, headers, body: await scrubbed(answer.body, scrub) };
}

/** Bytes that are no text stay as they are. */
async function scrubbed(body: Buffer, scrub: (text: string) => string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let isClean = true;
  for (let from = 0; from < body.length; ) {
    if (from > 0) await yieldForRequests();
    const to = endOfPiece(body, from, scrub);
    const text = body.toString('latin1', from, to);
    const clean = scrub(text);
    isClean &&= clean === text;
    pieces.push(clean === text ? body.subarray(from, to) : Buffer.from(clean, 'latin1'));
    from = to;
  }
  return isClean ? body : Buffer.concat(pieces);
}

/** The key stands nowhere across it. */
function endOfPiece(body: Buffer, from: number, scrub: (text: string) => string): number {
  let end = from + PIECE;
  while (end < body.length) {
    const [before, after] = [
      body.toString('latin1', end - LONGEST_FORM, end),
      body.toString('latin1', end, end + LONGEST_FORM),
    ];
    if (scrub(before + after) === scrub(before) + scrub(after)) return end;
    end += LONGEST_FORM;
  }
  return body.length;
}
