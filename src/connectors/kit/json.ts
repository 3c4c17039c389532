import type { ZodType } from 'zod';
import { SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { JsonError, parseJson } from '../../platform/http/parse-json.ts';
import { joinApart } from '../../platform/lib/json-apart.ts';

/** Reads the body of a delivery. Throws `delivery_malformed`. */
export function readJson(body: Uint8Array): unknown {
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) throw new SyncError('delivery_malformed', error.message, { cause: error });
    throw error;
  }
}

/** A payload as its schema has it. Throws `delivery_malformed`, which names the first place that is wrong. */
export function read<Output>(expected: ZodType<Output>, payload: unknown): Output {
  const result = expected.safeParse(payload);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw new SyncError('delivery_malformed', `${issue?.path.join('.') || 'the body'}: ${issue?.message}`);
}

type Answer = Pick<HttpAnswer, 'status' | 'body' | 'content'>;

/**
 * Reads the JSON body of an answer, unless the client has parsed it already. Throws `answer_malformed`: an HTML page of a proxy, a body
 * that was cut off.
 */
export function readAnswer(answer: Answer, what: string): unknown {
  if (answer.content !== undefined) return answer.content;
  try {
    return parseJson(answer.body);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new SyncError('answer_malformed', `${what}: ${error.message}`, { cause: error, status: answer.status });
  }
}

/**
 * An answer as its schema has it. Throws `answer_malformed`, which names the request and the first place that is wrong. Every
 * answer of a vendor goes through here or through `readable`: what a schema throws by itself is no `SyncError`.
 *
 * @param what the request, for people: `GET /user`
 */
export function parseAnswer<Output>(expected: ZodType<Output>, content: unknown, what: string): Output {
  const result = expected.safeParse(content);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const place = issue?.path.join('.') || 'the answer';
  throw new SyncError('answer_malformed', `${what}: ${place}: ${issue?.message}`);
}

/** The content if it fits the schema, else undefined. For what nobody promised: one of several shapes, a help for people. */
export function readable<Output>(expected: ZodType<Output>, content: unknown): Output | undefined {
  return expected.safeParse(content).data;
}

/** Reads an answer that must be a list. Throws `answer_malformed`. */
export function readList(answer: Answer, what: string): readonly unknown[] {
  const list = readAnswer(answer, what);
  if (Array.isArray(list)) return list;
  throw new SyncError('answer_malformed', `${what}: the answer is not a list`, { status: answer.status });
}

/** The body of a delivery. What the parser set apart of an answer gets its place again. */
export function writeJson(content: unknown): Buffer {
  return joinApart(content);
}
