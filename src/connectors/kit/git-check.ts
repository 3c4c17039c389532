import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Finding } from '../connector.ts';
import { failed, findingsOf } from './finding.ts';
import type { Api } from './git-api.ts';
import { readAnswer } from './json.ts';
import { unlessOff } from './switched-off.ts';

/** What `check` asks of a git provider. */
export interface GitChecks extends Pick<Api, 'get'> {
  /** Findings about the credential. */
  credential(signal: AbortSignal): Promise<readonly Finding[]>;
  /** What the configuration names one by one. */
  named(): readonly Named[];
  /** The last part of the paths of its lists, and the query for one element: a credential may see a repository, and still not its lists. */
  readonly lists: { readonly names: readonly string[]; readonly query: string };
  /** What of a repository or project is switched off, as the vendor tells of it; undefined where that list of it is on. */
  offIn?(name: string, told: unknown): string | undefined;
  /** The patterns of the configuration, and how many repositories they match. */
  readonly patterns: readonly string[];
  counted(signal: AbortSignal): Promise<number>;
  /** The lists that the vendor refused meanwhile, by their units. */
  refused?(): ReadonlyMap<string, SyncError>;
  /** Reads from the last answer how much of the limit is left. */
  limit(headers: HttpAnswer['headers']): Finding;
}

interface Named {
  /** As it is configured. */
  readonly subject: string;
  readonly path: string;
  readonly query?: string;
  /** What is said of it, as the vendor tells it. */
  describe(told: unknown): Finding;
}

/** Checks the credential, what the configuration names, and its patterns; tells how much of the limit is left. Reads only. */
export async function checkGit(checks: GitChecks, signal: AbortSignal): Promise<readonly Finding[]> {
  const findings = [...(await checks.credential(signal))];
  const { names, query } = checks.lists;
  let last: HttpAnswer | undefined;
  for (const { subject, path, query: own, describe } of checks.named()) {
    try {
      last = await checks.get(path, { query: own, signal });
      const told = readAnswer(last, `GET ${path}`);
      findings.push(describe(told));
      for (const name of names) {
        const list = () => checks.get(`${path}/${name}`, { query, signal });
        last = (await unlessSwitchedOff(subject, findings, list, () => checks.offIn?.(name, told))) ?? last;
      }
    } catch (thrown) {
      findings.push(failed(subject, thrown));
    }
  }
  if (checks.patterns.length > 0) findings.push(...(await describePatterns(checks, signal)));
  return last ? [...findings, checks.limit(last.headers)] : findings;
}

/** Reads a list. One that is switched off is no error: the finding says so. */
async function unlessSwitchedOff(
  subject: string,
  findings: Finding[],
  list: () => Promise<HttpAnswer>,
  offIn: () => string | undefined,
): Promise<HttpAnswer | undefined> {
  try {
    return await unlessOff(list, async () => offIn());
  } catch (thrown) {
    const { code, message, hint } = asSyncError(thrown);
    if (code !== 'feature_off') throw thrown;
    findings.push({ level: 'ok', subject, message, hint });
    return undefined;
  }
}

function describePatterns({ patterns, counted, refused }: GitChecks, signal: AbortSignal): Promise<readonly Finding[]> {
  const subject = patterns.join(', ');
  return findingsOf(subject, async () => {
    const count = await counted(signal);
    const lost = [...(refused?.() ?? [])].map(([unit, error]) => failed(unit, error));
    if (lost.length > 0) return lost;
    if (count > 0) return [{ level: 'ok', subject, message: count === 1 ? '1 repository' : `${count} repositories` }];
    const hint = 'Check the names, what the credential may see, and `exclude`, `archived` and `forks`.';
    return [{ level: 'warning', subject, message: 'matches no repository', hint }];
  });
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
