import { withoutSecrets } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { parseJson } from '../../platform/http/parse-json.ts';

/** The provider's clock as the answer shows it, epoch milliseconds. */
export function providerTime(answer: Pick<HttpAnswer, 'headers'>): number | undefined {
  const time = Date.parse(answer.headers['date'] ?? '');
  return Number.isNaN(time) ? undefined : time;
}

/** A text of the vendor, fit for a log: short, on one line, and without our secrets, whole ones and halves. */
export function onOneLine(text: string, longest = 200): string {
  return withoutSecrets(text)
    .replace(/[\s\p{C}]+/gu, ' ')
    .slice(0, longest);
}

/**
 * What the vendor says about a refusal; empty where it says nothing readable.
 *
 * @param messageOf finds it in the vendor's error object; it may throw, and may answer with anything
 */
export function saidBy(answer: Pick<HttpAnswer, 'body'>, messageOf: (body: unknown) => unknown): string {
  try {
    const message = messageOf(parseJson(answer.body));
    return typeof message === 'string' ? onOneLine(message) : '';
  } catch {
    return '';
  }
}
