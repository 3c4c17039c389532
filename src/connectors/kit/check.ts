import { asSyncError, type SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Finding } from '../connector.ts';
import type { Api } from './git-api.ts';
import { readAnswer } from './payload.ts';
import { detectFeatureOff, onOneLine } from './refusal.ts';
import { addressOf, type createScopeResolver, type Scope } from './scope.ts';

/** The finding for a request of `check` that failed. Throws the error where somebody stopped the check. */
export function failedFinding(subject: string, thrown: unknown): Finding {
  const error = asSyncError(thrown);
  if (error.code === 'aborted') throw error;
  return { level: 'error', subject, message: error.message, hint: error.hint };
}

/** What requests of `check` tell about a subject, or why they failed. */
export async function findingsOf(subject: string, ask: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await ask();
  } catch (thrown) {
    return [failedFinding(subject, thrown)];
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
 * The finding for a repository or project that this credential sees.
 *
 * @param name as it is configured, which may be its id
 * @param present what it is called now
 * @param write what people may write in place of an old name
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
 * The finding for what has a new name: worksync follows it by the id that its configured name is bound to.
 *
 * @param present what it is called now
 * @param write what people may write in place of the old name
 */
export function renamedFinding(subject: string, present: string, write = present): Finding {
  return {
    level: 'warning',
    subject,
    message: `is called ${present} now; worksync follows it by its id`,
    hint: `Write ${write} in the configuration.`,
  };
}

/** What the vendor calls its containers, the option that names them, and what to do where none can be seen. */
export interface ContainerWords {
  readonly word: string;
  readonly option: string;
  readonly hint: string;
}

/** What `check` asks of a tracker. */
export interface UnitChecks<Container> {
  about(signal: AbortSignal): Promise<About>;
  /** The container of a unit, which may be some minutes old. Throws where this credential cannot see it. */
  container(unit: string, signal: AbortSignal): Promise<Container>;
  /** The finding for a unit whose container can be seen. */
  describe(unit: string, container: Container, signal: AbortSignal): Promise<Finding>;
  /** What is switched off in a container, as `issues of Web`; undefined where nothing is. Absent: the vendor has no such switch. */
  offIn?(container: Container): string | undefined;
}

/** What `check` says of the vendor's address and the credential. */
export interface About {
  /** Where one of these is an error, `check` goes no further. */
  readonly first: readonly Finding[];
  readonly besides?: readonly Finding[];
}

/** Checks the address and the credential, and then each unit. Reads only. */
export async function checkUnits<Container>(
  { word, option, hint }: ContainerWords,
  source: UnitChecks<Container>,
  scope: Scope,
  { units, requireReadable }: Pick<ReturnType<typeof createScopeResolver>, 'units' | 'requireReadable'>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { first, besides = [] } = await source.about(signal);
  if (first.some(({ level }) => level === 'error')) return first;
  async function describe(unit: string, container: Container): Promise<Finding> {
    try {
      return await detectFeatureOff(
        () => source.describe(unit, container, signal),
        async () => source.offIn?.(container),
      );
    } catch (thrown) {
      const { code, message, hint } = asSyncError(thrown);
      if (code !== 'feature_off') throw thrown;
      return { level: 'ok', subject: unit, message, hint };
    }
  }
  const checkUnit = (unit: string) =>
    findingsOf(unit, async () => {
      requireReadable(unit);
      const container = await source.container(addressOf(unit, scope), signal);
      return [await describe(unit, container)];
    });
  const found = await findingsOf(option, async () => {
    const findings: Finding[] = [];
    for (const unit of await units(signal)) findings.push(...(await checkUnit(unit)));
    const message = `${option} matches no ${word} that this credential can see`;
    return findings.length === 0 ? [{ level: 'error', subject: option, message, hint }] : findings;
  });
  return [...first, ...besides, ...found];
}

/** What `check` asks of a git provider. */
export interface GitChecks extends Pick<Api, 'get'> {
  /** Findings about the credential. */
  credential(signal: AbortSignal): Promise<readonly Finding[]>;
  /** What the configuration names one by one. */
  namedRepositories(): readonly Named[];
  /** The last part of the paths of its lists, and the query for one element: a credential may see a repository, and still not its lists. */
  readonly lists: { readonly names: readonly string[]; readonly query: string };
  /** What of a repository or project is switched off, as the vendor tells of it; undefined where that list of it is on. */
  offIn?(name: string, told: unknown): string | undefined;
  /** The patterns of the configuration, and how many repositories they match. */
  readonly patterns: readonly string[];
  countMatches(signal: AbortSignal): Promise<number>;
  /** The lists that the vendor refused meanwhile, by their units. */
  refusedLists?(): ReadonlyMap<string, SyncError>;
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
  for (const { subject, path, query: own, describe } of checks.namedRepositories()) {
    try {
      last = await checks.get(path, { query: own, signal });
      const told = readAnswer(last, `GET ${path}`);
      findings.push(describe(told));
      for (const name of names) {
        const list = () => checks.get(`${path}/${name}`, { query, signal });
        last = (await unlessSwitchedOff(subject, findings, list, () => checks.offIn?.(name, told))) ?? last;
      }
    } catch (thrown) {
      findings.push(failedFinding(subject, thrown));
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
    return await detectFeatureOff(list, async () => offIn());
  } catch (thrown) {
    const { code, message, hint } = asSyncError(thrown);
    if (code !== 'feature_off') throw thrown;
    findings.push({ level: 'ok', subject, message, hint });
    return undefined;
  }
}

function describePatterns(
  { patterns, countMatches: counted, refusedLists: refused }: GitChecks,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const subject = patterns.join(', ');
  return findingsOf(subject, async () => {
    const count = await counted(signal);
    const lost = [...(refused?.() ?? [])].map(([unit, error]) => failedFinding(unit, error));
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
