import { entity } from '../model/change.ts';
import { type ByWorkspace, groupByWorkspace } from './by-workspace.ts';
import { json } from './entities.ts';
import { forgetMeta, PULL_REQUESTS_READ, readMeta, writeMeta } from './meta.ts';
import type { Scope, Sql } from './workspace-scope.ts';

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
