import type { ZodType } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import { JsonError, parseJson } from '../../http/json.ts';

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

/** Reads the JSON body of an answer. Throws `answer_malformed`: an HTML page of a proxy, a body that was cut off. */
export function readAnswer(answer: Pick<HttpAnswer, 'status' | 'body'>, what: string): unknown {
  try {
    return parseJson(answer.body);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new SyncError('answer_malformed', `${what}: ${error.message}`, { cause: error, status: answer.status });
  }
}

/** Reads an answer that must be a list. Throws `answer_malformed`. */
export function readList(answer: Pick<HttpAnswer, 'status' | 'body'>, what: string): readonly unknown[] {
  const list = readAnswer(answer, what);
  if (Array.isArray(list)) return list;
  throw new SyncError('answer_malformed', `${what}: the answer is not a list`, { status: answer.status });
}

/** What becomes the body of a delivery. */
export function writeJson(content: unknown): Buffer {
  return Buffer.from(JSON.stringify(content));
}
