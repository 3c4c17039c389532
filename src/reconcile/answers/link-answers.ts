import { z } from 'zod';
import { entity } from '../../model/change.ts';
import { isAutomatic } from '../../model/link.ts';
import {
  blankEntity,
  type EntityRow,
  findEntity,
  json,
  linksOfItem,
  linksOfTask,
  saveEntity,
} from '../../store/entities.ts';
import { itemsNamed } from '../../store/item-names.ts';
import { inOrder } from '../../store/kept-rows.ts';
import { dropDifference, findChange, findChanges } from '../../store/outbox-rows.ts';
import type { Answer } from '../../store/workspace-answers.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import { addFindings } from '../../store/workspace-sweeps.ts';
import type { Moment } from '../context.ts';
import type { KnownLink } from '../evaluate-links.ts';
import { nameOf, normalUrl } from '../link-rules/item-names-of.ts';
import { type ListedLink, type ListedRecord, linkList, linkShape } from './shapes.ts';

/** A record names the tasks that have a link with its URL: so a person's removals and additions are seen without a request. */
export async function compareLinks(query: Scope, itemKey: string, record: ListedRecord, look: Look): Promise<void> {
  const links = await linksOfItem(query, itemKey);
  await changesOf(query, links);
  for (const link of links) {
    const exists = record.taskIds?.includes(link.task_id as string) ?? false;
    // After a rename at the provider the record has another URL than the link: then it tells nothing of it.
    const isTold = (json<KnownLink>(link.known)?.url ?? record.url) === record.url;
    if (!isTold) continue;
    if (link.known !== null && !exists) await removedByHand(query, link, look);
    else if (link.known === null && exists) await foundThere(query, link, look);
  }
}

/** Reads them at once. */
async function changesOf(query: Scope, links: readonly EntityRow[]): Promise<void> {
  await findChanges(
    query,
    links.map((link) => link.entity),
  );
}

/** How worksync came to see a link. */
interface Look {
  /** When the answer about it was requested, and now; epoch milliseconds. */
  readonly sentAt: number;
  readonly now: number;
  /** Whether a round of the sweep reports what is found. */
  readonly isSwept: boolean;
}

/** A link of ours that vanished without our doing was removed by a person, and stays removed. */
async function removedByHand(query: Scope, link: EntityRow, { sentAt, now, isSwept }: Look): Promise<void> {
  if ((link.known_at ?? 0) >= sentAt) return;
  if (await findChange(query, link.entity)) return;
  const hand = link.desired === null ? null : 'removed';
  await saveEntity(query, { ...link, known: null, remote_id: null, hand });
  if (isSwept) await addFindings(query, [{ what: 'link-removed', entity: link.entity }], now);
}

/** It stands there already: whoever made it, nothing need be sent. */
async function foundThere(
  query: Scope,
  link: EntityRow,
  { sentAt, now, isSwept }: Look,
  told?: Partial<EntityRow>,
): Promise<void> {
  if ((link.known_at ?? 0) >= sentAt) return;
  const change = await findChange(query, link.entity);
  if (change && change.state !== 'pending') return;
  const url = json<KnownLink>(link.desired)?.url;
  await saveEntity(query, { ...link, known: JSON.stringify({ url }), hand: null, ...told, known_at: now });
  await dropDifference(query, link.entity);
  if (isSwept) await addFindings(query, [{ what: 'link-added', entity: link.entity }], now);
}

/** The server answers with the link that exists for that URL, which a person may have made before us. */
export async function applyAddedLink(query: Scope, answer: Answer): Promise<string[]> {
  const link = linkShape.parse(answer.body);
  const row = await findEntity(query, answer.entity);
  if (!row) return [];
  await saveEntity(query, { ...row, ...whoMade(link) });
  return row.item_key ? [row.item_key] : [];
}

function whoMade(link: ListedLink): Pick<EntityRow, 'known' | 'remote_id' | 'hand'> {
  const externalId = link.externalId ?? null;
  return {
    known: JSON.stringify({ url: link.url, externalId } satisfies KnownLink),
    remote_id: link.workItemId,
    hand: isAutomatic(externalId) ? null : 'manual',
  };
}

/**
 * Known under another id: it was removed and made again, and events may come late, so nobody knows which of the two stands there. The
 * links of the task are read before it is removed.
 */
function unsure({ url }: ListedLink): Pick<EntityRow, 'known' | 'remote_id'> {
  return { known: JSON.stringify({ url } satisfies KnownLink), remote_id: null };
}

/** All links of one task: which there are, who made them, and under which id. */
export async function applyLinkList(query: Scope, answer: Answer, moment: Moment): Promise<string[]> {
  const { workItems } = linkList.parse(answer.body);
  const taskId = answer.entity.slice(entity.readLinks('').length);
  const look = { sentAt: answer.sentAt, now: moment.now, isSwept: true };
  const again: string[] = [];
  const rows = await linksOfTask(query, taskId);
  await changesOf(query, rows);
  for (const row of rows) {
    const url = json<KnownLink>(row.known ?? row.desired)?.url;
    const found = workItems.find((link) => link.workItemId === row.remote_id || link.url === url);
    if (row.known === null && !found) continue;
    if (!found) await removedByHand(query, row, look);
    else if (row.known === null) await foundThere(query, row, look, whoMade(found));
    else await saveEntity(query, { ...row, ...whoMade(found) });
    if (row.item_key) again.push(row.item_key);
  }
  const looks = workItems.map((link) => (own: Scope) => keepForeign(own, { ...link, taskId }, moment));
  const foreign = (await inOrder(query, looks)).flat();
  const findings = foreign.map((key) => ({ what: 'link-added' as const, entity: entity.link(key, taskId) }));
  await addFindings(query, findings, moment.now);
  return [...again, ...foreign];
}

/** A link that somebody made: by hand, or we, and this is the echo. */
export async function applySeenLink(query: Scope, link: ListedLink, moment: Moment): Promise<string[]> {
  const again: string[] = [];
  const rows = await linksOfTask(query, link.taskId ?? '');
  await changesOf(query, rows);
  for (const row of rows) {
    const url = json<KnownLink>(row.known ?? row.desired)?.url;
    if (row.remote_id !== link.workItemId && url !== link.url) continue;
    // One of ours that we do not know of was taken away since: the event is late. Where it is wanted, adding it tells.
    if (row.known === null && isAutomatic(link.externalId)) continue;
    const change = await findChange(query, row.entity);
    if (change && change.state !== 'pending') continue;
    const isAnother = row.remote_id !== null && row.remote_id !== link.workItemId;
    const told = isAnother ? unsure(link) : whoMade(link);
    await saveEntity(query, { ...row, ...told, known_at: moment.now });
    if (row.item_key) again.push(row.item_key);
  }
  return [...again, ...(await keepForeign(query, link, moment))];
}

/** A person linked an item of a tracker to a task: then that task is the item's task. */
async function keepForeign(query: Scope, link: ListedLink, moment: Moment): Promise<string[]> {
  const url = normalUrl(link.url);
  if (url === undefined || link.taskId === undefined || isAutomatic(link.externalId)) return [];
  const again: string[] = [];
  for (const { itemKey } of await itemsNamed(query, [nameOf.url(url)])) {
    const name = entity.link(itemKey, link.taskId);
    if (await findEntity(query, name)) continue;
    const ids = { item_key: itemKey, task_id: link.taskId, known_at: moment.now };
    await saveEntity(query, { ...blankEntity(name, 'link', ids), ...whoMade(link) });
    again.push(itemKey);
  }
  return again;
}

export async function applySeenRemoval(query: Scope, answer: Answer, moment: Moment): Promise<string[]> {
  const { taskId, workItemId } = z.object({ taskId: z.string(), workItemId: z.string() }).parse(answer.body);
  const again: string[] = [];
  const rows = await linksOfTask(query, taskId);
  await changesOf(query, rows);
  for (const row of rows) {
    if (row.known === null || row.remote_id !== workItemId) continue;
    await removedByHand(query, row, { sentAt: answer.sentAt, now: moment.now, isSwept: false });
    if (row.item_key) again.push(row.item_key);
  }
  return again;
}
