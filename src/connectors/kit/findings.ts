import { asSyncError } from '../../model/errors.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Finding } from '../connector.ts';
import { readAnswer } from './payload.ts';
import { detectFeatureOff, onOneLine } from './refusal.ts';
import type { Api } from './rest.ts';
import { addressOf, type Scope, type ScopeResolver } from './scope.ts';

/** Returns the finding for a request of `check` that failed. Throws the error if the check was aborted. */
export function failedFinding(subject: string, thrown: unknown): Finding {
  const error = asSyncError(thrown);
  if (error.code === 'aborted') throw error;
  return { level: 'error', subject, message: error.message, hint: error.hint };
}

/** Resolves with the findings of requests about a subject, or with the finding for the request that failed. */
export async function findingsOf(
  subject: string,
  request: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await request();
  } catch (thrown) {
    return [failedFinding(subject, thrown)];
  }
}

/** @param word the vendor's word for the id @param what the vendor's word for the items */
export function tenantFinding(
  subject: string,
  id: string | undefined,
  configured: string,
  word: string,
  what: string,
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

/** The time before the expiry of a credential in which `check` warns: long enough to create a new one. */
const EXPIRES_SOON = 14 * DAY;

/** Returns a warning for a credential that expires soon, else undefined. */
export function expiryFinding(what: string, end: { readonly at: number; readonly shown: string }, now: number) {
  if (end.at - now >= EXPIRES_SOON) return undefined;
  return {
    level: 'warning',
    subject: 'credential',
    message: `${what} expires on ${end.shown}`,
    hint: 'Create a new token, and put it into the configuration before that day.',
  } satisfies Finding;
}

/**
 * Returns the finding for a repository or project that this credential can read.
 *
 * @param name the configured name or id
 * @param present its current name
 * @param write the name to configure in place of an old one
 */
export function accessFinding(
  name: string,
  present: string,
  { archived = false, write = present }: { readonly archived?: boolean | undefined; readonly write?: string } = {},
): Finding {
  const isId = /^\d+$/.test(name);
  if (!isId && present.toLowerCase() !== name.toLowerCase()) return renamedFinding(name, present, write);
  if (archived) return { level: 'warning', subject: name, message: 'is archived: nothing changes there any more' };
  return { level: 'ok', subject: name, message: isId ? `${present} can be read` : 'can be read' };
}

/**
 * Returns the finding for a renamed object, which worksync follows by the id that its configured name is bound to.
 *
 * @param present its current name
 * @param write the name to configure in place of the old one
 */
export function renamedFinding(subject: string, present: string, write = present): Finding {
  return {
    level: 'warning',
    subject,
    message: `is called ${present} now; worksync follows it by its id`,
    hint: `Write ${write} in the configuration.`,
  };
}

/**
 * Returns the finding for the rest of a rate limit.
 *
 * @param prefix of the headers that report the limit
 * @param period of the limit, such as ` in this hour`; empty if it is unknown
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

/** The vendor's word for its containers, the option that names them, and the remedy if none can be seen. */
export interface ContainerWords {
  readonly word: string;
  readonly option: string;
  readonly hint: string;
}

export interface UnitChecks<Container> {
  about(signal: AbortSignal): Promise<About>;
  /** Gets the container of a unit, which may be some minutes old. Throws if this credential cannot see it. */
  container(unit: string, signal: AbortSignal): Promise<Container>;
  /** Resolves with the finding for a unit whose container can be seen. */
  describe(unit: string, container: Container, signal: AbortSignal): Promise<Finding>;
  /** Returns what is switched off in a container, such as `issues of Web`; undefined if nothing is. Absent: no such switch exists. */
  offIn?(container: Container): string | undefined;
}

export interface About {
  /** If one of these is an error, `check` ends. */
  readonly first: readonly Finding[];
  readonly besides?: readonly Finding[];
}

export async function checkUnits<Container>(
  { word, option, hint }: ContainerWords,
  source: UnitChecks<Container>,
  scope: Scope,
  { units, requireReadable }: Pick<ScopeResolver, 'units' | 'requireReadable'>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { first, besides = [] } = await source.about(signal);
  if (first.some(({ level }) => level === 'error')) return first;

  const checkUnit = (unit: string) =>
    findingsOf(unit, async () => {
      requireReadable(unit);
      const container = await source.container(addressOf(unit, scope), signal);
      const describe = () => source.describe(unit, container, signal);
      return [await unlessFeatureOff(unit, describe, () => source.offIn?.(container))];
    });
  const found = await findingsOf(option, async () => {
    const findings: Finding[] = [];
    for (const unit of await units(signal)) findings.push(...(await checkUnit(unit)));
    const message = `${option} matches no ${word} that this credential can see`;
    return findings.length === 0 ? [{ level: 'error', subject: option, message, hint }] : findings;
  });
  return [...first, ...besides, ...found];
}

export interface GitChecks extends Pick<Api, 'get'> {
  credential(signal: AbortSignal): Promise<readonly Finding[]>;
  /** Returns the repositories that the configuration names one by one. */
  namedRepositories(): readonly NamedRepository[];
  /**
   * The last part of the paths of a repository's lists, and the query for one element. A credential may see a repository and
   * still not its lists.
   */
  readonly lists: { readonly names: readonly string[]; readonly query: string };
  /**
   * Returns what is switched off in a repository, according to the vendor's description of it; undefined if the list is on.
   *
   * @param list one of `lists.names`
   */
  offIn?(list: string, repository: unknown): string | undefined;
  /** The repositories, or groups of repositories, whose lists polls walk. */
  readonly repositories: ScopeResolver;
  limit(headers: HttpAnswer['headers']): Finding;
}

interface NamedRepository {
  readonly subject: string;
  readonly path: string;
  readonly query?: string;
  describe(repository: unknown): Finding;
}

/** Checks the credential of a git provider, the named repositories, the patterns, and the rest of the limit. Only reads. */
export async function checkGit(checks: GitChecks, signal: AbortSignal): Promise<readonly Finding[]> {
  const findings = [...(await checks.credential(signal))];
  let lastAnswer: HttpAnswer | undefined;
  const get = async (path: string, query: string | undefined) => {
    lastAnswer = await checks.get(path, { query, signal });
    return lastAnswer;
  };
  for (const { subject, path, query, describe } of checks.namedRepositories()) {
    try {
      const repository = readAnswer(await get(path, query), `GET ${path}`);
      findings.push(describe(repository));
      for (const name of checks.lists.names) {
        const list = () => get(`${path}/${name}`, checks.lists.query).then(() => undefined);
        const off = await unlessFeatureOff(subject, list, () => checks.offIn?.(name, repository));
        if (off) findings.push(off);
      }
    } catch (thrown) {
      findings.push(failedFinding(subject, thrown));
    }
  }
  if (checks.repositories.patterns.length > 0) findings.push(...(await checkPatterns(checks.repositories, signal)));
  return lastAnswer ? [...findings, checks.limit(lastAnswer.headers)] : findings;
}

function checkPatterns({ patterns, listed, refused }: ScopeResolver, signal: AbortSignal): Promise<readonly Finding[]> {
  const subject = patterns.join(', ');
  return findingsOf(subject, async () => {
    const count = (await listed(signal)).length;
    const failed = [...refused()].map(([unit, error]) => failedFinding(unit, error));
    if (failed.length > 0) return failed;
    if (count > 0) return [{ level: 'ok', subject, message: count === 1 ? '1 repository' : `${count} repositories` }];
    const hint = 'Check the names, what the credential may see, and `exclude`, `archived` and `forks`.';
    return [{ level: 'warning', subject, message: 'matches no repository', hint }];
  });
}

/**
 * Resolves with the result of a read. If the vendor refuses it because a feature is switched off, resolves with a finding that
 * says so, which is no error.
 */
async function unlessFeatureOff<Result>(
  subject: string,
  read: () => Promise<Result>,
  offIn: () => string | undefined,
): Promise<Result | Finding> {
  try {
    return await detectFeatureOff(read, async () => offIn());
  } catch (thrown) {
    const { code, message, hint } = asSyncError(thrown);
    if (code !== 'feature_off') throw thrown;
    return { level: 'ok', subject, message, hint };
  }
}
