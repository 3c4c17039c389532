import { entity } from '../model/change.ts';
import { json } from './entities.ts';
import { forgetMeta, readMeta, writeMeta } from './meta.ts';
import { PULL_REQUESTS_READ } from './workspace-reads.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/**
 * What is known about the server of a workspace: which routes it has, which fields it accepts, whether
 * it recognises a repeated link. It holds for one base address;
 * nothing is known about a server at another address.
 */
export const SERVER_FACTS = ['records', 'routes', 'creation', 'marks', 'repeatedLinks'] as const;
type ServerFact = (typeof SERVER_FACTS)[number];

const ADDRESS = 'server.address';

export async function readServerFact<Value>(query: Scope, fact: ServerFact): Promise<Value | undefined> {
  return json<Value>((await readMeta(query, nameOf(fact))) ?? null);
}

export async function writeServerFact(query: Scope, fact: ServerFact, value: object): Promise<void> {
  await writeMeta(query, nameOf(fact), JSON.stringify(value));
}

/** At the start: forgets the facts about a server at another address. Its records are listed, and its links read, anew. */
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

/** The facts about the servers of several workspaces, by their names. */
export async function serverFactsOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<(workspace: number) => Readonly<Partial<Record<ServerFact, unknown>>>> {
  const rows = await query
    .selectFrom('meta')
    .select(['workspace', 'name', 'value'])
    .where('workspace', 'in', workspaces)
    .where('name', 'in', SERVER_FACTS.map(nameOf))
    .execute();
  const byWorkspace = Map.groupBy(rows, ({ workspace }) => workspace);
  return (workspace) =>
    Object.fromEntries(
      (byWorkspace.get(workspace) ?? []).map(({ name, value }) => [
        name.slice(nameOf('' as ServerFact).length),
        JSON.parse(value),
      ]),
    );
}

function nameOf(fact: ServerFact): string {
  return `server.${fact}`;
}
