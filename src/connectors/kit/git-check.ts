import { asSyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { Finding } from '../connector.ts';
import { failed } from './finding.ts';

/** What `check` asks of a git provider. */
export interface GitChecks {
  /** Findings about the credential. */
  credential(signal: AbortSignal): Promise<readonly Finding[]>;
  /** What the configuration names one by one. */
  readonly named: readonly Named[];
  /** The patterns of the configuration, and how many repositories they match. */
  readonly patterns: readonly string[];
  counted(signal: AbortSignal): Promise<number>;
  /** Reads from the last answer how much of the limit is left. */
  limit(headers: HttpAnswer['headers']): Finding;
}

interface Named {
  /** As it is configured. */
  readonly subject: string;
  /**
   * Reads it, and its lists: a credential may see a repository, and still not its lists.
   *
   * @param note collects the finding, and each answer that may tell the limit
   */
  look(note: (finding: Finding | undefined, answer?: HttpAnswer) => void, signal: AbortSignal): Promise<void>;
}

/** Checks the credential, what the configuration names, and its patterns; tells how much of the limit is left. Reads only. */
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
    return { level: 'warning', subject, message: 'matches no repository', hint };
  } catch (thrown) {
    return failed(subject, asSyncError(thrown));
  }
}

/**
 * How much is left of a limit whose headers begin with this prefix.
 *
 * @param period of the limit, as ` in this hour`; empty where it is not known
 */
export function limitFinding(headers: HttpAnswer['headers'], prefix: string, period: string, hint: string): Finding {
  const subject = 'rate limit';
  const remaining = Number(headers[`${prefix}-remaining`] ?? Number.NaN);
  const total = Number(headers[`${prefix}-limit`] ?? Number.NaN);
  // A self-hosted server has no limit unless its owner sets one.
  if (Number.isNaN(remaining) || !(total > 0)) return { level: 'ok', subject, message: 'none reported' };
  const message = `${remaining} of ${total} requests left${period}`;
  return remaining >= total / 10 ? { level: 'ok', subject, message } : { level: 'warning', subject, message, hint };
}
