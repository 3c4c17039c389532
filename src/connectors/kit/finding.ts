import { asSyncError } from '../../model/errors/sync-error.ts';
import type { Finding } from '../connector.ts';
import { onOneLine } from './answers.ts';

/** The finding for a request of `check` that failed. Throws the error where somebody stopped the check. */
export function failed(subject: string, thrown: unknown): Finding {
  const error = asSyncError(thrown);
  if (error.code === 'aborted') throw error;
  return { level: 'error', subject, message: error.message, hint: error.hint };
}

/** What requests of `check` tell about a subject, or why they failed. */
export async function findingsOf(subject: string, ask: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await ask();
  } catch (thrown) {
    return [failed(subject, thrown)];
  }
}

/** The finding for a tenant, by whose id worksync identifies its items. @param what the items are called */
export function tenantFinding(
  subject: string,
  {
    id,
    configured,
    word,
    what,
  }: { readonly id: string | undefined; readonly configured: string; readonly word: string; readonly what: string },
): Finding {
  if (id === undefined) return { level: 'warning', subject, message: `does not report its ${word}` };
  if (id === configured) return { level: 'ok', subject, message: `has the configured ${word}` };
  return {
    level: 'error',
    subject,
    message: `has the ${word} ${onOneLine(id, 60)}, not the configured one`,
    hint: `Configure that id, or correct the ${subject}. worksync identifies ${what} by it.`,
  };
}

const DAY = 86_400_000;
/** How long before a credential expires `check` warns, so that there is time to create a new one. */
const EXPIRES_SOON = 14 * DAY;

/** The finding for a credential whose end is known: a warning where it is near, undefined where it is not. */
export function expiringSoon(what: string, end: { readonly at: number; readonly shown: string }, now: number) {
  if (end.at - now >= EXPIRES_SOON) return undefined;
  return {
    level: 'warning',
    subject: 'credential',
    message: `${what} expires on ${end.shown}`,
    hint: 'Create a new token, and put it into the configuration before that day.',
  } satisfies Finding;
}

/**
 * The finding for a repository or project that this credential sees.
 *
 * @param name as it is configured, which may be its id
 * @param present what it is called now
 * @param write what people may write in place of an old name
 */
export function readFinding(
  name: string,
  present: string,
  { archived = false, write = present }: { readonly archived?: boolean | undefined; readonly write?: string } = {},
): Finding {
  const isId = /^\d+$/.test(name);
  if (!isId && present.toLowerCase() !== name.toLowerCase()) return renamed(name, present, write);
  if (archived) return { level: 'warning', subject: name, message: 'is archived: nothing changes there any more' };
  return { level: 'ok', subject: name, message: isId ? `${present} can be read` : 'can be read' };
}

/**
 * The finding for what has a new name: worksync follows it by the id that its configured name is bound to.
 *
 * @param present what it is called now
 * @param write what people may write in place of the old name
 */
export function renamed(subject: string, present: string, write = present): Finding {
  return {
    level: 'warning',
    subject,
    message: `is called ${present} now; worksync follows it by its id`,
    hint: `Write ${write} in the configuration.`,
  };
}
