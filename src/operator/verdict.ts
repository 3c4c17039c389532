import { CODES } from '../errors/codes.ts';
import { counted } from '../lib/quantities.ts';

/**
 * ok        everything goes on by itself.
 * degraded  work goes on, and something needs a person, or does not arrive.
 * blocked   nothing goes on until the cause is gone.
 */
export type Verdict = 'ok' | 'degraded' | 'blocked';

/** One reason for a verdict. */
export interface Cause {
  /** Stable: one of `WARNINGS`, or an error code of the registry. */
  readonly code: string;
  readonly verdict: Exclude<Verdict, 'ok'>;
  /** How many things it concerns. */
  readonly count: number;
  /** For people: `94 changes held`. */
  readonly message: string;
  /** What to do. */
  readonly hint: string;
}

export interface Judgement {
  readonly verdict: Verdict;
  /** In one sentence: what is synced of what should be, and what is wrong. */
  readonly summary: string;
  /** What blocks comes first. */
  readonly causes: readonly Cause[];
}

/** The parts of a workspace's status that the verdict depends on. */
export interface Facts {
  readonly pullRequests: Tally;
  readonly links: Tally;
  readonly changes: { readonly byState: { readonly held: number } };
  readonly deliveries: { readonly quarantined: number };
  readonly connections: readonly ConnectionFacts[];
  readonly backfills: readonly { readonly connection: string; readonly failures: readonly unknown[] }[];
  /** Why nothing is sent or stored until someone acts. */
  readonly halt: Failure | null;
  /** What is wrong with the present configuration, where an earlier one stays in use. */
  readonly rejected: string | null;
}

interface Tally {
  readonly total: number;
  readonly waiting: number;
}

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

interface ConnectionFacts {
  readonly name: string;
  readonly failure: { readonly code: string } | null;
  readonly missingUnits: readonly string[];
  readonly hooks: {
    readonly silent: readonly unknown[];
    readonly failure: string | null;
    readonly redeliveryFailure: string | null;
  } | null;
  readonly names: readonly { readonly elsewhere: string | null }[];
}

/** The one place that judges the state of a workspace: pages, commands, metrics and the log show its result. */
export function judge(facts: Facts): Judgement {
  const causes = [...blocking(facts), ...WARNINGS.flatMap((warning) => warn(warning, facts))];
  const verdict = worst(causes.map((cause) => cause.verdict));
  const messages = causes.map(({ code, message, verdict: weight }) =>
    weight === 'blocked' ? `${code}: ${message}` : message,
  );
  return { verdict, summary: [synced(facts), ...messages].join('; '), causes };
}

/** Of no verdicts at all: ok. */
export function worst(verdicts: readonly Verdict[]): Verdict {
  if (verdicts.includes('blocked')) return 'blocked';
  return verdicts.includes('degraded') ? 'degraded' : 'ok';
}

function synced({ pullRequests, links }: Facts): string {
  return `${partOf(pullRequests, 'pull request')} synced, ${partOf(links, 'link')}`;
}

/** `24 of 260 pull requests`, or `260 pull requests` where none waits. */
export function partOf({ total, waiting }: Tally, noun: string): string {
  const done = Math.max(0, total - waiting);
  return done === total ? counted(total, noun) : `${done} of ${counted(total, noun)}`;
}

function blocking({ halt }: Facts): Cause[] {
  if (!halt) return [];
  const { code, message, hint } = halt;
  return [{ code, message, hint, verdict: 'blocked', count: 1 }];
}

interface Warning {
  readonly code: string;
  readonly hint: string;
  /** Names of what it concerns, or how many there are. */
  find(facts: Facts): readonly string[] | number;
  describe(count: number): string;
}

/** Everything short of a standstill, most urgent first. */
export const WARNINGS: readonly Warning[] = [
  {
    code: 'config_rejected',
    hint: 'Correct the file: the daemon reloads it by itself. Until then the last good configuration stays in use.',
    find: ({ rejected }) => (rejected === null ? [] : [rejected]),
    describe: () => 'the changed configuration was rejected',
  },
  {
    code: 'connections_failing',
    hint: 'See the errors below; "worksync check" asks each provider and names the remedy.',
    find: ({ connections }) =>
      connections.flatMap(({ name, failure }) => (failure ? [`${name}: ${failure.code}`] : [])),
    describe: (count) => `${counted(count, 'connection')} failing`,
  },
  {
    code: 'changes_held',
    hint: 'List them with "worksync held"; release them with "worksync held release".',
    find: ({ changes }) => changes.byState.held,
    describe: (count) => `${counted(count, 'change')} held`,
  },
  {
    code: 'deliveries_quarantined',
    hint: 'The reasons are shown below. When the sender repeats a delivery, worksync tries it again.',
    find: ({ deliveries }) => deliveries.quarantined,
    describe: (count) => (count === 1 ? '1 delivery quarantined' : `${count} deliveries quarantined`),
  },
  {
    code: 'names_rebound',
    hint: CODES.scope_rebound.hint,
    find: ({ connections }) =>
      connections.filter(({ names }) => names.some(({ elsewhere }) => elsewhere !== null)).map(({ name }) => name),
    describe: (count) => `names of ${counted(count, 'connection')} lead to another target than before`,
  },
  {
    code: 'webhooks_silent',
    hint: 'Run "worksync hooks status" to see which, and "worksync hooks install" to repair them.',
    find: ({ connections }) => connections.filter(({ hooks }) => hooks?.silent.length).map(({ name }) => name),
    describe: (count) => `webhooks of ${counted(count, 'connection')} send nothing`,
  },
  {
    code: 'webhooks_unknown',
    hint: 'Run "worksync hooks status" to see why the vendor does not show them.',
    find: ({ connections }) => connections.filter(({ hooks }) => hooks?.failure).map(({ name }) => name),
    describe: (count) => `webhooks of ${counted(count, 'connection')} could not be checked`,
  },
  {
    code: 'redeliveries_failing',
    hint: 'Polls bring what the vendor could not deliver. The error is shown below.',
    find: ({ connections }) => connections.filter(({ hooks }) => hooks?.redeliveryFailure).map(({ name }) => name),
    describe: (count) => `redelivery could not be requested for ${counted(count, 'connection')}`,
  },
  {
    code: 'units_missing',
    hint: 'They are gone, renamed, or not visible to the credential: correct the scope, or the rights. Their records and links stay.',
    find: ({ connections }) => connections.flatMap(({ missingUnits }) => missingUnits),
    describe: (count) =>
      count === 1 ? '1 repository or project not found' : `${count} repositories or projects not found`,
  },
  {
    code: 'backfill_failing',
    hint: 'See the errors below. A backfill retries by itself what it has not given up.',
    find: ({ backfills }) =>
      backfills.filter(({ failures }) => failures.length > 0).map(({ connection }) => connection),
    describe: (count) => `${counted(count, 'backfill')} failing`,
  },
];

/** Nobody reads more names than these in one sentence. */
const NAMED = 3;

function warn({ code, hint, find, describe }: Warning, facts: Facts): Cause[] {
  const found = find(facts);
  const names = typeof found === 'number' ? [] : found;
  const count = typeof found === 'number' ? found : found.length;
  if (count === 0) return [];
  const shown = [...names.slice(0, NAMED), ...(names.length > NAMED ? ['…'] : [])].join(', ');
  const message = shown === '' ? describe(count) : `${describe(count)} (${shown})`;
  return [{ code, verdict: 'degraded', count, message, hint }];
}
