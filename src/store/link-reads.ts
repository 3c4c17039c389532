import { entity } from '../model/change.ts';
import { linksOfTask } from './entities.ts';
import { readMeta, writeMeta } from './meta.ts';
import { findChanges, saveChange } from './outbox-rows.ts';
import { readRecordsRoute } from './records-route.ts';
import { readServerFact, writeServerFact } from './server-facts.ts';
import { removeRows } from './unit-of-work/unit-of-work.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * Adding a link may double it on a server that does not recognise the address. There a link is added only after the task's
 * links were read: once in the life of a database, and again after each answer that was lost.
 */
const CONFIGURED = 'server.links';

/** At the start: `workspace.api.links` of the configuration. */
export async function configureLinks(query: Scope, areIdempotent: boolean): Promise<void> {
  const value = areIdempotent ? 'idempotent' : '';
  if (((await readMeta(query, CONFIGURED)) ?? '') !== value) await writeMeta(query, CONFIGURED, value);
}

/**
 * Whether the server adds no second link with an address that the task has already (W39, W74): its route for records implies
 * it, the configuration states it, or a repeated addition has shown it.
 */
export async function linksAreIdempotent(query: Scope): Promise<boolean> {
  if ((await readRecordsRoute(query)).state === 'open') return true;
  if ((await readMeta(query, CONFIGURED)) === 'idempotent') return true;
  return (await readServerFact(query, 'repeatedLinks')) !== undefined;
}

/** An addition of worksync was repeated and came back with the id of the first one. */
export async function noteLinksAreIdempotent(query: Scope, now: number): Promise<void> {
  if ((await readServerFact(query, 'repeatedLinks')) === undefined)
    await writeServerFact(query, 'repeatedLinks', { since: now });
}

/** A request that read the links of a task and was answered. */
export interface LinksRead {
  readonly revision: number;
  /** Epoch milliseconds. */
  readonly sentAt: number;
}

/** The tasks are gone, and nothing is remembered about them. */
export async function forgetLinkReads(query: Scope, taskIds: readonly string[]): Promise<void> {
  await removeRows(
    query,
    'meta',
    taskIds.map((taskId) => ({ name: entity.readLinks(taskId) })),
  );
}

/** The last one; undefined before the first one. */
export async function lastLinksRead(query: Scope, taskId: string): Promise<LinksRead | undefined> {
  const text = await readMeta(query, entity.readLinks(taskId));
  if (text === undefined) return undefined;
  const [revision, sentAt = 0] = text.split(' ').map(Number);
  return { revision: revision as number, sentAt };
}

/** The links of a task were read: those that waited for that may be added. */
export async function noteLinksRead(query: Scope, taskId: string, { revision, sentAt }: LinksRead): Promise<void> {
  await writeMeta(query, entity.readLinks(taskId), `${revision} ${sentAt}`);
  const links = (await linksOfTask(query, taskId)).map((row) => row.entity);
  for (const change of await findChanges(query, links))
    if (change.state === 'pending' && change.not_before > 0) await saveChange(query, { ...change, not_before: 0 });
}
