import { asSyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { Finding } from '../connector.ts';
import { failed } from './finding.ts';

/** What `check` asks, beside what is followed. */
export interface GitChecks {
  /** What is said of the credential. */
  credential(signal: AbortSignal): Promise<readonly Finding[]>;
  /** What is named one by one. */
  readonly named: readonly Named[];
  /** Patterns, and how much they take in. */
  readonly patterns: readonly string[];
  counted(signal: AbortSignal): Promise<number>;
  /** What the last answer says of what is left of the limit. */
  limit(headers: HttpAnswer['headers']): Finding;
}

interface Named {
  /** As it is configured. */
  readonly subject: string;
  /**
   * Looks at it, and at its lists: it may be open to a credential that may not see those.
   *
   * @param note takes what is found, and each answer that may tell of the limit
   */
  look(note: (finding: Finding | undefined, answer?: HttpAnswer) => void, signal: AbortSignal): Promise<void>;
}

/** Proves the credential, what is named, the patterns, and tells what is left of the limit. Reads only. */
export async function checkGit(checks: GitChecks, signal: AbortSignal): Promise<readonly Finding[]> {
  const findings = [...(await checks.credential(signal))];
  let last: HttpAnswer | undefined;
  const note = (finding: Finding | undefined, answer?: HttpAnswer) => {
    if (finding) findings.push(finding);
    last = answer ?? last;
  };
  for (const { subject, look } of checks.named) {
    try {
      await look(note, signal);
    } catch (thrown) {
      findings.push(failed(subject, asSyncError(thrown)));
    }
  }
  if (checks.patterns.length > 0) findings.push(await describePatterns(checks, signal));
  const headers = (last as HttpAnswer | undefined)?.headers;
  return headers ? [...findings, checks.limit(headers)] : findings;
}

async function describePatterns({ patterns, counted }: GitChecks, signal: AbortSignal): Promise<Finding> {
  const subject = patterns.join(', ');
  try {
    const count = await counted(signal);
    if (count > 0) return { level: 'ok', subject, message: count === 1 ? '1 repository' : `${count} repositories` };
    const hint = 'Check the names, what the credential may see, and `exclude`, `archived` and `forks`.';
    return { level: 'warning', subject, message: 'takes in no repository', hint };
  } catch (thrown) {
    return failed(subject, asSyncError(thrown));
  }
}

/**
 * What is left of a limit whose headers begin with this prefix.
 *
 * @param period as `in this hour`, where it is known
 */
export function limitFinding(headers: HttpAnswer['headers'], prefix: string, period: string, hint: string): Finding {
  const subject = 'rate limit';
  const remaining = Number(headers[`${prefix}-remaining`] ?? Number.NaN);
  const total = Number(headers[`${prefix}-limit`] ?? Number.NaN);
  // Servers of one's own have no limit unless their owner sets one.
  if (Number.isNaN(remaining) || !(total > 0)) return { level: 'ok', subject, message: 'none reported' };
  const message = `${remaining} of ${total} requests left${period}`;
  return remaining >= total / 10 ? { level: 'ok', subject, message } : { level: 'warning', subject, message, hint };
}
