import { type EntityRow, json } from './entities.ts';
import { findItems, readFields } from './items.ts';
import { readMeta, writeMeta } from './meta.ts';
import { readRecordsRoute } from './server-capabilities.ts';
import type { Scope, Sql } from './workspace-scope.ts';

/**
 * No list contains the links of work items, links with an address from before a rename, and attached documents. worksync reads
 * them one after the other, a task or a document at a time. Where nothing is recorded in the workspace, it also reads the tasks
 * without any known link, because nothing else shows which links people made. Its position outlives the process.
 */
export interface SweepPosition {
  /** When it began, and when it came to its end; null while it goes on. Epoch milliseconds. */
  readonly startedAt: number;
  readonly endedAt: number | null;
  /** When the last one was asked for. */
  readonly readAt: number;
  /** How many were asked for. */
  readonly read: number;
  /** The last one requested: tasks with known links first, then documents, then all other tasks. */
  readonly after: Place;
}

interface Place {
  readonly kind: 'link' | 'document' | 'task';
  /** Id of the task, or entity of the document. */
  readonly name: string;
}

const TURN = 'workspace_turn';

export async function readSweepPosition(query: Scope): Promise<SweepPosition | undefined> {
  return json<SweepPosition>((await readMeta(query, TURN)) ?? null);
}

/** The same of several workspaces. */
export async function sweepPositionsOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<(workspace: number) => SweepPosition | undefined> {
  const rows = await query
    .selectFrom('meta')
    .select(['workspace', 'value'])
    .where('workspace', 'in', workspaces)
    .where('name', '=', TURN)
    .execute();
  const values = new Map(rows.map((row) => [row.workspace, row.value]));
  return (workspace) => json<SweepPosition>(values.get(workspace) ?? null);
}

export async function writeSweepPosition(query: Scope, turn: SweepPosition): Promise<void> {
  await writeMeta(query, TURN, JSON.stringify(turn));
}

/** Before all links and documents. */
export const SWEEP_START: Place = { kind: 'link', name: '' };

/** Rows looked at in one statement: few enough that nobody waits for it. */
const LOOKED_AT = 500;

/** Where the turn goes on: what is to be read, and where to look next; neither: it has come to its end. */
export interface SweepStep {
  readonly found?: Place;
  readonly after?: Place;
}

/** The next one, among the next rows. */
export async function nextSweepStep(query: Scope, { kind, name }: Place): Promise<SweepStep> {
  if (kind === 'link') return nextLinks(query, name);
  return kind === 'document' ? nextDocument(query, name) : nextUnlinkedTask(query, name);
}

/**
 * Tasks with links of work items, or with links that no record names. Where nothing is recorded in the workspace, that is all of
 * them: there is no other way to learn which links people made.
 */
async function nextLinks(query: Scope, after: string): Promise<SweepStep> {
  const rows = await query
    .selectFrom('entities')
    .select(['task_id', 'item_key', 'known', 'desired'])
    .where('task_id', '>', after)
    .where('kind', '=', 'link')
    .where(({ or, eb }) => or([eb('hand', 'is', null), eb('hand', '!=', 'gone')]))
    .orderBy('task_id')
    .limit(LOOKED_AT)
    .execute();
  const keys = rows.flatMap(({ item_key }) => item_key ?? []);
  const items = await query
    .selectFrom('items')
    .select('key')
    .where('key', 'in', ['', ...keys])
    .where('kind', '=', 'work_item')
    .execute();
  const isItem = new Set(items.map(({ key }) => key));
  const isOfItem = ({ item_key }: LinkRow) => isItem.has(item_key ?? '');
  const ofPulls = rows.filter((row) => !isOfItem(row));
  const untold = new Set(await withOtherAddress(query, ofPulls));
  const areListed = (await readRecordsRoute(query)).state === 'open';
  const found = rows.find((row) => isOfItem(row) || untold.has(row) || !areListed)?.task_id;
  if (found) return { found: { kind: 'link', name: found } };
  const last = rows.at(-1)?.task_id;
  // A task with more links than that is gone past: nobody makes so many by hand.
  return { after: last && rows.length === LOOKED_AT ? { kind: 'link', name: last } : { kind: 'document', name: '' } };
}

type LinkRow = Pick<EntityRow, 'item_key' | 'known' | 'desired'>;

/** A record names the tasks that are linked to its own address: not by a link from before the repository was renamed. */
async function withOtherAddress(query: Scope, rows: readonly LinkRow[]): Promise<readonly LinkRow[]> {
  const standing = rows.filter(({ known }) => known !== null);
  // What a person made, and nobody else wants, says nothing of where its item is now.
  const keys = standing.flatMap(({ item_key, desired }) => (desired === null && item_key !== null ? [item_key] : []));
  const items = keys.length === 0 ? [] : await findItems(query, keys);
  const urls = new Map(items.map((row) => [row.key as string, readFields(row).item.url]));
  return standing.filter(({ item_key, known, desired }) => {
    const [from, to] = [json(known)?.['url'], json(desired)?.['url'] ?? urls.get(item_key ?? '')];
    return from !== undefined && to !== undefined && from !== to;
  });
}

/** Only those that were attached here. */
async function nextDocument(query: Scope, after: string): Promise<SweepStep> {
  const rows = await query
    .selectFrom('entities')
    .select(['entity', 'task_id', 'known'])
    .where('entity', '>', after === '' ? 'document:' : after)
    .where('entity', '<', 'document;')
    .where('kind', '=', 'document')
    .orderBy('entity')
    .limit(LOOKED_AT)
    .execute();
  const found = rows.find(({ known, task_id }) => task_id !== null && json(known)?.['taskId'] === task_id);
  if (found) return { found: { kind: 'document', name: found.entity } };
  const last = rows.at(-1)?.entity;
  if (last && rows.length === LOOKED_AT) return { after: { kind: 'document', name: last } };
  return (await readRecordsRoute(query)).state === 'open' ? {} : { after: { kind: 'task', name: '' } };
}

/** The next cached task of which no link is known. */
async function nextUnlinkedTask(query: Scope, after: string): Promise<SweepStep> {
  const rows = await query
    .selectFrom('tasks')
    .select('task_id')
    .where('task_id', '>', after)
    .orderBy('task_id')
    .limit(LOOKED_AT)
    .execute();
  const ids = rows.map(({ task_id }) => task_id);
  const linked = await query
    .selectFrom('entities')
    .select('task_id')
    .where('task_id', 'in', ['', ...ids])
    .where('kind', '=', 'link')
    .where(({ or, eb }) => or([eb('hand', 'is', null), eb('hand', '!=', 'gone')]))
    .execute();
  const isLinked = new Set(linked.map(({ task_id }) => task_id));
  const found = ids.find((id) => !isLinked.has(id));
  if (found !== undefined) return { found: { kind: 'task', name: found } };
  const last = ids.at(-1);
  return last !== undefined && ids.length === LOOKED_AT ? { after: { kind: 'task', name: last } } : {};
}
