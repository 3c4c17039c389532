import type { ByWorkspace } from '../by-workspace.ts';
import { type EntityRow, json } from '../changes/entities.ts';
import { findItems, readFields } from '../items/items.ts';
import { readMeta, writeMeta } from '../meta.ts';
import type { Scope, Sql } from '../workspace-scope.ts';
import { readRecordsRoute } from './server-capabilities.ts';

/**
 * The stored position of the part of the workspace sweep that reads single tasks and documents. No list contains the links of work
 * items, links with an address from before a rename, and attached documents. If pull requests are not recorded in the workspace,
 * the sweep also reads the tasks without known links, because nothing else shows which links people added.
 * Times are epoch milliseconds.
 */
export interface SweepPosition {
  readonly startedAt: number;
  /** Null while the sweep runs. */
  readonly endedAt: number | null;
  /** When the last resource was requested. */
  readonly readAt: number;
  /** Number of requested resources. */
  readonly read: number;
  /** The last requested resource. Tasks with known links are first, then documents, then all other tasks. */
  readonly after: SweepResource;
}

interface SweepResource {
  readonly kind: 'link' | 'document' | 'task';
  /** Id of the task, or entity of the document. */
  readonly name: string;
}

/** A stored name, older than the term position. */
const POSITION = 'workspace_turn';

export async function readSweepPosition(query: Scope): Promise<SweepPosition | undefined> {
  return json<SweepPosition>((await readMeta(query, POSITION)) ?? null);
}

/** Returns the positions of several workspaces. */
export async function sweepPositionsOf(
  query: Sql,
  workspaces: readonly number[],
): Promise<ByWorkspace<SweepPosition | undefined>> {
  const rows = await query
    .selectFrom('meta')
    .select(['workspace', 'value'])
    .where('workspace', 'in', workspaces)
    .where('name', '=', POSITION)
    .execute();
  const values = new Map(rows.map((row) => [row.workspace, row.value]));
  return (workspace) => json<SweepPosition>(values.get(workspace) ?? null);
}

export async function writeSweepPosition(query: Scope, position: SweepPosition): Promise<void> {
  await writeMeta(query, POSITION, JSON.stringify(position));
}

/** The position before all resources. */
export const SWEEP_START: SweepResource = { kind: 'link', name: '' };

/** Rows read by one statement. It is short, so that no other work waits for it. */
const PAGE_SIZE = 500;

export interface SweepStep {
  readonly found?: SweepResource;
  readonly after?: SweepResource;
}

/**
 * Searches one page of rows for the next resource to read. Returns it, or the position of the next step; neither at the end of the
 * sweep.
 */
export async function nextSweepStep(query: Scope, { kind, name }: SweepResource): Promise<SweepStep> {
  if (kind === 'link') return nextLinks(query, name);
  return kind === 'document' ? nextDocument(query, name) : nextUnlinkedTask(query, name);
}

/**
 * Finds the next task with a link of a work item, or with a link that no record lists. If pull requests are not recorded in the
 * workspace, these are all tasks with links.
 */
async function nextLinks(query: Scope, after: string): Promise<SweepStep> {
  const rows = await query
    .selectFrom('entities')
    .select(['task_id', 'item_key', 'known', 'desired'])
    .where('task_id', '>', after)
    .where('kind', '=', 'link')
    .where(({ or, eb }) => or([eb('hand', 'is', null), eb('hand', '!=', 'gone')]))
    .orderBy('task_id')
    .limit(PAGE_SIZE)
    .execute();
  const keys = rows.flatMap(({ item_key }) => item_key ?? []);
  const items = query.selectFrom('items').select('key').where('kind', '=', 'work_item');
  const named = await items.where('key', 'in', ['', ...keys]).execute();
  const workItems = new Set(named.map(({ key }) => key));
  const isOfWorkItem = ({ item_key }: LinkRow) => workItems.has(item_key ?? '');
  const ofPulls = rows.filter((row) => !isOfWorkItem(row));
  const unlisted = new Set(await withOtherAddress(query, ofPulls));
  const areListed = (await readRecordsRoute(query)).state === 'open';
  const found = rows.find((row) => isOfWorkItem(row) || unlisted.has(row) || !areListed)?.task_id;
  if (found) return { found: { kind: 'link', name: found } };
  const last = rows.at(-1)?.task_id;
  // Skips the other links of a task with more links than a page. People do not add so many by hand.
  return { after: last && rows.length === PAGE_SIZE ? { kind: 'link', name: last } : { kind: 'document', name: '' } };
}

type LinkRow = Pick<EntityRow, 'item_key' | 'known' | 'desired'>;

/**
 * Returns the links whose address differs from the present one of their item. A record lists only the tasks that are linked to
 * its own address, and not a link from before the repository was renamed.
 */
async function withOtherAddress(query: Scope, rows: readonly LinkRow[]): Promise<readonly LinkRow[]> {
  const existing = rows.filter(({ known }) => known !== null);
  // The desired state of a link that only a person added is empty, so the present address comes from the item.
  const keys = existing.flatMap(({ item_key, desired }) => (desired === null && item_key !== null ? [item_key] : []));
  const items = keys.length === 0 ? [] : await findItems(query, keys);
  const urls = new Map(items.map((row) => [row.key as string, readFields(row).item.url]));
  return existing.filter(({ item_key, known, desired }) => {
    const [from, to] = [json(known)?.['url'], json(desired)?.['url'] ?? urls.get(item_key ?? '')];
    return from !== undefined && to !== undefined && from !== to;
  });
}

/** Finds the next document that is attached to the task of its entity. */
async function nextDocument(query: Scope, after: string): Promise<SweepStep> {
  const rows = await query
    .selectFrom('entities')
    .select(['entity', 'task_id', 'known'])
    .where('entity', '>', after === '' ? 'document:' : after)
    .where('entity', '<', 'document;')
    .where('kind', '=', 'document')
    .orderBy('entity')
    .limit(PAGE_SIZE)
    .execute();
  const found = rows.find(({ known, task_id }) => task_id !== null && json(known)?.['taskId'] === task_id);
  if (found) return { found: { kind: 'document', name: found.entity } };
  const last = rows.at(-1)?.entity;
  if (last && rows.length === PAGE_SIZE) return { after: { kind: 'document', name: last } };
  return (await readRecordsRoute(query)).state === 'open' ? {} : { after: { kind: 'task', name: '' } };
}

/** Finds the next cached task without a known link. */
async function nextUnlinkedTask(query: Scope, after: string): Promise<SweepStep> {
  const next = query.selectFrom('tasks').select('task_id').where('task_id', '>', after);
  const rows = await next.orderBy('task_id').limit(PAGE_SIZE).execute();
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
  return last !== undefined && ids.length === PAGE_SIZE ? { after: { kind: 'task', name: last } } : {};
}
