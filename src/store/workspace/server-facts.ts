import { entity } from '../../model/change.ts';
import { forgetMeta, PULL_REQUESTS_READ, readMeta, writeMeta } from '../meta.ts';
import { type ByWorkspace, groupByWorkspace, json, type Scope, type Sql } from '../workspace-scope.ts';

/**
 * Facts about the server of a workspace: its routes, the fields that it accepts, whether it recognises a repeated link, and
 * how it updates tasks.
 * They are valid for one base address.
 */
export const SERVER_FACTS = ['records', 'routes', 'creation', 'marks', 'repeatedLinks', 'taskUpdate'] as const;
type ServerFact = (typeof SERVER_FACTS)[number];

const PREFIX = 'server.';
const ADDRESS = 'server.address';

export async function readServerFact<Value>(query: Scope, fact: ServerFact): Promise<Value | undefined> {
  return json<Value>((await readMeta(query, nameOf(fact))) ?? null);
}

export async function writeServerFact(query: Scope, fact: ServerFact, value: object): Promise<void> {
  await writeMeta(query, nameOf(fact), JSON.stringify(value));
}

/** Forgets the facts if the base address has changed. Then all records are listed again, and the links of each task are read again. */
export async function bindServerFacts(query: Scope, baseUrl: string): Promise<void> {
  if ((await readMeta(query, ADDRESS)) === baseUrl) return;
  for (const fact of SERVER_FACTS) await forgetMeta(query, nameOf(fact));
  await forgetMeta(query, PULL_REQUESTS_READ);
  await query
    .deleteFrom('meta')
    .where('name', 'like', `${entity.readLinks('')}%`)
    .execute();
  await writeMeta(query, ADDRESS, baseUrl);
}

/** Returns the facts about the servers of several workspaces, by the names of the facts. */
export async function serverFactsOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<ByWorkspace<Readonly<Partial<Record<ServerFact, unknown>>>>> {
  const rows = await query
    .selectFrom('meta')
    .select(['workspace', 'name', 'value'])
    .where('workspace', 'in', workspaces)
    .where('name', 'in', SERVER_FACTS.map(nameOf))
    .execute();
  const facts = groupByWorkspace(rows);
  return (workspace) =>
    Object.fromEntries(facts(workspace).map(({ name, value }) => [name.slice(PREFIX.length), JSON.parse(value)]));
}

function nameOf(fact: ServerFact): string {
  return PREFIX + fact;
}

/** The evidence about a field, a status or a header that a server may refuse. A stored value. */
export interface Trial {
  /** The server accepted it: later refusals concern single values or tasks. */
  readonly passed?: boolean;
  /** The different values or tasks for which the server refused it, as digests or ids. */
  readonly refused?: readonly string[];
  /** When it was switched off, epoch milliseconds. */
  readonly offSince?: number;
}

const OFF_FOR_MS = 86_400_000;
/** Number of different refusals, without a success, that switches something off. A single one may concern one task or value. */
const MAX_REFUSALS = 3;

/**
 * Computes the trial after a refusal. What is off is tried again after a day, and a single refusal then switches it off again.
 *
 * @param cause the refused value as a digest, or the task that refused
 */
export function afterTrialRefused({ passed, refused = [] }: Trial, cause: string, now: number): Trial {
  if (passed) return { passed };
  const all = [...new Set([...refused, cause])].slice(-MAX_REFUSALS);
  return all.length >= MAX_REFUSALS ? { refused: all, offSince: now } : { refused: all };
}

/** Whether it is switched off at present. */
export function isOff({ offSince }: Trial = {}, now: number): boolean {
  return offSince !== undefined && now - offSince < OFF_FOR_MS;
}
