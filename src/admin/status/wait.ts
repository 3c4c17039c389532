import { counted } from '../../platform/lib/quantities.ts';
import { unknownName } from '../named.ts';
import type { Status, WorkspaceStatus } from './status.ts';

/**
 * ready            the daemon stores webhooks
 * synced           everything known is processed and sent, and each poll has ended once
 * workspace=NAME   this workspace is open
 */
export type Condition = { readonly kind: 'ready' | 'synced' } | { readonly kind: 'workspace'; readonly name: string };

export const CONDITIONS = ['ready', 'synced', 'workspace=<name>'] as const;

export function conditionOf(text: string): Condition | undefined {
  if (text === 'ready' || text === 'synced') return { kind: text };
  const name = /^workspace=(.+)$/.exec(text)?.[1];
  return name === undefined ? undefined : { kind: 'workspace', name };
}

export interface Waiting {
  /** The missing parts; none once the condition is met. */
  readonly waitsFor: readonly string[];
  /** Obstacles that do not go away without a person. */
  readonly needsPerson: readonly string[];
}

/**
 * Reports the progress of a condition.
 *
 * @param only the workspaces that `synced` is about: all by default
 * Throws `usage` if one of them is not configured.
 */
export function judgeCondition(condition: Condition, status: Status, only: readonly string[] = []): Waiting {
  if (condition.kind === 'ready') return readiness(status);
  const names = condition.kind === 'workspace' ? [condition.name] : only;
  for (const name of names) refuseUnknown(name, status);
  const isMeant = ({ name }: { readonly name: string }) => names.length === 0 || names.includes(name);
  const broken = status.broken.filter(isMeant).map(({ name, code, hint }) => `${name} is not open: ${code}. ${hint}`);
  const silent = (status.elsewhere ?? [])
    .filter(isMeant)
    .map(({ name }) => `the replica that works on ${name} to answer`);
  if (condition.kind === 'workspace') return { waitsFor: silent, needsPerson: broken };
  const judged = status.workspaces.filter(isMeant).map(syncOf);
  return {
    waitsFor: [...readiness(status).waitsFor, ...silent, ...judged.flatMap(({ waitsFor }) => waitsFor)],
    needsPerson: [...broken, ...judged.flatMap(({ needsPerson }) => needsPerson)],
  };
}

function readiness({ ready, components }: Status): Waiting {
  if (ready) return { waitsFor: [], needsPerson: [] };
  const reasons = Object.entries(components).filter(([, reason]) => reason !== 'ok');
  return {
    waitsFor: [`the daemon to be ready${reasons.map(([name, reason]) => `, ${name}: ${reason}`).join('')}`],
    needsPerson: [],
  };
}

function refuseUnknown(name: string, { workspaces, broken, elsewhere = [] }: Status): void {
  const known = [...workspaces, ...broken, ...elsewhere].map((each) => each.name);
  if (!known.includes(name)) throw unknownName('workspace', name, known);
}

function syncOf(workspace: WorkspaceStatus): Waiting {
  const { name, deliveries, changes, connections, state, backfills } = workspace;
  const { pending, sending, unknown, held } = changes.byState;
  const fetches = connections.reduce((sum, connection) => sum + connection.fetches, 0);
  const polls = connections.filter(({ schedule, lastPollAt }) => schedule !== null && lastPollAt === null);
  const parts = [
    ...some(deliveries.pending, 'delivery', 'deliveries'),
    ...some(fetches, 'fetch', 'fetches'),
    ...some(pending + sending + unknown, 'change'),
    ...polls.map((connection) => `the first poll of ${connection.name}`),
    ...backfills
      .filter(({ finishedAt }) => finishedAt === null)
      .map(({ connection }) => `the backfill of ${connection}`),
  ];
  // In a halted workspace waiting does not help.
  return {
    waitsFor: parts.length === 0 || state.kind === 'halted' ? [] : [`${name}: ${parts.join(', ')}`],
    needsPerson: [
      ...(state.kind === 'halted' ? [`${name}: ${state.code}: ${state.message}. ${state.hint}`] : []),
      ...(held > 0 ? [`${name}: ${counted(held, 'change')} held; list them with "worksync held"`] : []),
    ],
  };
}

function some(count: number, one: string, many = `${one}s`): string[] {
  return count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];
}
