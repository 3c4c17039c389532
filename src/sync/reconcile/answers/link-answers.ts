import { z } from 'zod';
import { entity, MAX_TIME_IN_FLIGHT } from '../../../model/change.ts';
import { mayBeCut } from '../../../model/delivery.ts';
import { externalIdOf, isAutomatic } from '../../../model/link.ts';
import {
  allLinksOfItem,
  allLinksOfTask,
  blankEntity,
  type EntityRow,
  findEntity,
  json,
  saveEntity,
} from '../../../store/entities.ts';
import { itemsNamed } from '../../../store/item-names.ts';
import { itemsAtUrl } from '../../../store/items.ts';
import {
  dropDifference,
  findChange,
  findChanges,
  type OutboxRow,
  removeChange,
  saveChange,
} from '../../../store/outbox-rows.ts';
import { currentRevision } from '../../../store/revision.ts';
import { linksAreIdempotent } from '../../../store/server-capabilities.ts';
import { runSequentially } from '../../../store/unit-of-work/unit-of-work.ts';
import type { Answer } from '../../../store/workspace-answers.ts';
import { enqueueReads, noteLinksRead } from '../../../store/workspace-reads.ts';
import type { Scope } from '../../../store/workspace-scope.ts';
import { addFindings } from '../../../store/workspace-sweeps.ts';
import type { EvaluationContext } from '../context.ts';
import type { KnownLink } from '../evaluate-links.ts';
import { nameOf, normalUrl } from '../link-rules/item-names-of.ts';
import { type ListedLink, type ListedRecord, linkList, linkShape } from './shapes.ts';

/**
 * What the answers of the workspace say about links.
 *
 * An answer never overrides a state that became known after its request was sent (`isNews`). Whose link it is follows from what
 * worksync wrote; the `externalId` that a server returns counts only for links that worksync knows nothing about, as after the
 * loss of its database.
 */

/** Whether a row may still be changed by an answer that is true as of this revision. */
function isNews({ revision }: EntityRow, asOf: number): boolean {
  return revision <= asOf;
}

/** The revision at which an answer came; absent for an event, whose receipt has none. */
type Receipt = Pick<Answer, 'receivedRevision'>;

/** How worksync came to see a link. */
interface Sight extends Receipt {
  readonly asOf: number;
  readonly now: number;
  /** A round of the sweep reports what is found. */
  readonly isSwept: boolean;
}

/** A record names the tasks that link to its address: so links that people add and remove are seen without a request. */
export async function compareLinks(query: Scope, itemKey: string, record: ListedRecord, sight: Sight): Promise<void> {
  const links = await allLinksOfItem(query, itemKey);
  await loadChanges(query, links);
  for (const link of links) {
    const exists = record.taskIds?.includes(link.task_id as string) ?? false;
    // After a rename at the provider the record has another address than the link: then it says nothing about it.
    // A server that stores addresses in its own spelling finds no task by ours, so its record says nothing either.
    const known = json<KnownLink>(link.known);
    const isTold = known?.spelled === undefined && (known?.url ?? record.url) === record.url;
    if (!isTold || !isNews(link, sight.asOf)) continue;
    if (!exists) await missing(query, link, sight);
    else if (link.known === null) await foundByRecord(query, link, record, sight);
  }
}

async function loadChanges(query: Scope, links: readonly EntityRow[]): Promise<void> {
  await findChanges(
    query,
    links.map((link) => link.entity),
  );
}

/** The record does not say who made the link: before it is removed, the links of the task are read. */
async function foundByRecord(query: Scope, link: EntityRow, record: ListedRecord, sight: Sight): Promise<void> {
  const change = await findChange(query, link.entity);
  if (change && change.state !== 'pending') return;
  const url = json<KnownLink>(link.desired)?.url ?? record.url ?? undefined;
  await save(query, { ...link, known: JSON.stringify({ url }), hand: null, remote_id: null }, sight);
  await dropDifference(query, link.entity);
  if (sight.isSwept) await addFindings(query, [{ what: 'link-added', entity: link.entity }], sight.now);
}

/** Stores the state of a link as it became known when the answer came: a request that was sent later may override it. */
async function save(
  query: Scope,
  row: EntityRow,
  { now, receivedRevision }: Receipt & { readonly now: number },
): Promise<void> {
  await saveEntity(query, { ...row, known_at: now, revision: receivedRevision ?? (await currentRevision(query)) });
}

/** A link that the workspace does not have. */
async function missing(query: Scope, link: EntityRow, sight: Sight): Promise<void> {
  if (link.known === null) return;
  const change = await findChange(query, link.entity);
  if (change?.state === 'sending') return;
  const isOurDoing = change !== undefined && (link.desired === null || sentAction(change) === 'remove-link');
  if (isOurDoing) return removed(query, link, change, sight);
  if (change !== undefined) return;
  const hand = link.desired === null ? 'gone' : 'removed';
  await save(query, { ...link, known: null, hand }, sight);
  if (sight.isSwept) await addFindings(query, [{ what: 'link-removed', entity: link.entity }], sight.now);
}

/** The removal that waits, or whose answer was lost, has taken effect. */
async function removed(query: Scope, link: EntityRow, change: OutboxRow, sight: Sight): Promise<void> {
  await save(query, { ...link, known: null, hand: link.desired === null ? 'gone' : null }, sight);
  if (link.desired === null) return removeChange(query, change.entity);
  // It became wanted again meanwhile.
  await saveChange(query, { ...change, sent: null, state: 'pending', attempts: 0, effect: 'creation' });
}

function sentAction({ sent }: OutboxRow): string | undefined {
  return json<{ action?: string }>(sent)?.action;
}

/** The answer to our own addition: it names the link, which on an idempotent server a person may have made before. */
export async function applyAddedLink(query: Scope, answer: Answer): Promise<string[]> {
  const link = linkShape.nullish().parse(answer.body);
  const row = await findEntity(query, answer.entity);
  if (!row) return [];
  if (link && row.known !== null && isNews(row, answer.asOf ?? 0)) {
    const isTheirs = answer.status === 200 && !isAutomatic(link.externalId) && (await mayBeFound(query, row));
    const url = json<KnownLink>(row.known)?.url ?? link.url;
    const own = { url, externalId: externalIdOf(row.item_key ?? ''), ...spelledBy(link.url, url) };
    const theirs = { url: link.url, externalId: link.externalId ?? null };
    const known = JSON.stringify((isTheirs ? theirs : own) satisfies KnownLink);
    await saveEntity(query, { ...row, known, remote_id: link.workItemId, hand: isTheirs ? 'manual' : null });
  }
  return row.item_key ? [row.item_key] : [];
}

/** The server's spelling of an address, where it is not ours. */
function spelledBy(theirs: string | undefined, ours: string | undefined): Pick<KnownLink, 'spelled'> {
  return theirs === undefined || theirs === ours ? {} : { spelled: theirs };
}

/** Whether the answer may name a link that was there before: not after an attempt of ours whose answer was lost. */
async function mayBeFound(query: Scope, { written }: EntityRow): Promise<boolean> {
  const isRepeat = json<{ isRepeat?: boolean }>(written)?.isRepeat ?? false;
  return !isRepeat && (await linksAreIdempotent(query));
}

/** All links of one task: which there are, who made them, and under which id. */
export async function applyLinkList(query: Scope, answer: Answer, moment: EvaluationContext): Promise<string[]> {
  const { workItems, isLast = null, unreadable } = linkList.parse(answer.body);
  const isComplete = isLast !== false && unreadable === 0 && !mayBeCut(workItems.length, isLast);
  const taskId = answer.entity.slice(entity.readLinks('').length);
  const asOf = answer.asOf ?? 0;
  const { receivedRevision } = answer;
  const sight = { asOf, receivedRevision, now: moment.now, isSwept: true };
  const again: string[] = [];
  const rows = await allLinksOfTask(query, taskId);
  await loadChanges(query, rows);
  const addresses = await addressesOf(query, rows);
  const matches = matchLinks(rows, workItems, addresses);
  for (const row of rows) {
    if (!isNews(row, asOf)) continue;
    const link = matches.get(row.entity);
    if (link) await foundInList(query, row, { ...link, ownUrl: addresses.get(row.entity) }, sight);
    else if (isComplete) await missing(query, row, sight);
    if (row.item_key) again.push(row.item_key);
  }
  const revision = Math.min(asOf + 1, ...(await unansweredBy(query, rows, answer)));
  await noteLinksRead(query, taskId, { revision, sentAt: answer.sentAt });
  const matched = new Set(matches.values());
  const others = workItems.filter((link) => !matched.has(link));
  const looks = others.map(
    (link) => (own: Scope) => keepForeign(own, { ...link, taskId }, { asOf, receivedRevision }, moment),
  );
  const foreign = (await runSequentially(query, looks)).flat();
  const findings = foreign.map((key) => ({ what: 'link-added' as const, entity: entity.link(key, taskId) }));
  await addFindings(query, findings, moment.now);
  return [...again, ...foreign];
}

/**
 * The link of each row: by its id, else by its address. Servers may drop the slash, the case or the fragment of an address:
 * such a spelling counts where it fits one row only.
 */
function matchLinks(
  rows: readonly EntityRow[],
  links: readonly ListedLink[],
  addresses: ReadonlyMap<string, string>,
): Map<string, ListedLink> {
  const matches = new Map<string, ListedLink>();
  const match = (fits: (row: EntityRow, link: ListedLink) => boolean, isSure = true) => {
    for (const row of rows) {
      if (matches.has(row.entity)) continue;
      const free = links.filter((link) => ![...matches.values()].includes(link) && fits(row, link));
      const [link] = free;
      const rivals = rows.filter((other) => link !== undefined && !matches.has(other.entity) && fits(other, link));
      if (link !== undefined && (isSure || (free.length === 1 && rivals.length === 1))) matches.set(row.entity, link);
    }
  };
  match((row, link) => row.known !== null && row.remote_id === link.workItemId);
  match((row, link) => addresses.get(row.entity) === link.url);
  match((row, link) => spelling(addresses.get(row.entity)) === spelling(link.url), false);
  return matches;
}

interface Sent {
  readonly action: string;
  readonly sentAt: number;
  readonly revision: number;
}

/**
 * The revisions of additions that may have been on their way when this list was requested, and that it does not settle: before
 * they are repeated, the links are read again.
 */
async function unansweredBy(query: Scope, rows: readonly EntityRow[], { sentAt }: Answer): Promise<number[]> {
  const revisions: number[] = [];
  for (const row of rows) {
    const sent = json<Sent>((await findChange(query, row.entity))?.sent ?? null);
    if (sent?.action === 'add-link' && sentAt < sent.sentAt + MAX_TIME_IN_FLIGHT) revisions.push(sent.revision);
  }
  return revisions;
}

/** The addresses of links by their entities, also of one that is not wanted any more after its addition was sent. */
async function addressesOf(query: Scope, rows: readonly EntityRow[]): Promise<ReadonlyMap<string, string>> {
  const addresses = new Map<string, string>();
  for (const row of rows) {
    const sent = json<{ body?: { url?: string } }>((await findChange(query, row.entity))?.sent ?? null);
    const url = urlOf(row) ?? sent?.body?.url;
    if (url !== undefined) addresses.set(row.entity, url);
  }
  return addresses;
}

function urlOf(row: EntityRow): string | undefined {
  return json<KnownLink>(row.known ?? row.desired)?.url;
}

/** An address without what servers may drop. */
function spelling(url: string | undefined): string | undefined {
  return url?.split('#', 1)[0]?.replace(/\/$/, '').toLowerCase();
}

type Match = ListedLink & {
  /** The address as worksync spells it. */
  readonly ownUrl: string | undefined;
};

async function foundInList(query: Scope, row: EntityRow, link: Match, sight: Sight): Promise<void> {
  const change = await findChange(query, row.entity);
  if (change?.state === 'sending') return;
  const isOurs = isOwn(row, link, change);
  // As we spell it, where the server only spells it otherwise.
  const url = spelling(link.ownUrl) === spelling(link.url) ? link.ownUrl : link.url;
  const known = {
    ...{ url, ...spelledBy(link.url, url) },
    externalId: isOurs ? externalIdOf(row.item_key ?? '') : (link.externalId ?? null),
  } satisfies KnownLink;
  const hand = isOurs ? null : 'manual';
  await save(query, { ...row, known: JSON.stringify(known), remote_id: link.workItemId, hand }, sight);
  const isLostAddition = change !== undefined && sentAction(change) === 'add-link';
  // A record may have shown the link first: the lost addition is settled all the same.
  if (row.known !== null && !isLostAddition) return;
  // The link that was to be added, also by a request whose answer was lost, is there.
  if (change?.sent != null) await saveChange(query, { ...change, sent: null, state: 'pending', attempts: 0 });
  await dropDifference(query, row.entity);
  if (sight.isSwept && change?.sent == null)
    await addFindings(query, [{ what: 'link-added', entity: row.entity }], sight.now);
}

/**
 * Ours is what worksync wrote: a link that is known as ours, under the same id; or one that was not there before a request of
 * ours whose answer was lost. A record may have shown that one since, which does not say who made it.
 */
function isOwn(row: EntityRow, link: ListedLink, change: OutboxRow | undefined): boolean {
  const known = json<KnownLink>(row.known);
  const isSame = row.remote_id === null || row.remote_id === link.workItemId;
  if (known !== undefined && row.hand === 'manual') return false;
  if (known?.externalId !== undefined && isSame) return true;
  const isUnexplained = known?.externalId === undefined;
  return isAutomatic(link.externalId) || (isUnexplained && change !== undefined && sentAction(change) === 'add-link');
}

/**
 * Somebody reports a link: an event of the workspace, which may come minutes late, or the answer to a request of somebody else.
 * A link whose id is unknown is added. One that was removed under this id stays removed. Where the address stands there under
 * another id, only the links of the task can tell which of the two is there.
 */
export async function applySeenLink(
  query: Scope,
  link: ListedLink,
  answer: Answer,
  moment: EvaluationContext,
): Promise<string[]> {
  const { asOf, receivedRevision } = answer;
  const taskId = link.taskId ?? '';
  const rows = await allLinksOfTask(query, taskId);
  await loadChanges(query, rows);
  const byId = rows.find((row) => row.remote_id === link.workItemId);
  const row = byId ?? rows.find((each) => urlOf(each) === link.url);
  if (!row) return keepForeign(query, link, answer, moment);
  if (asOf !== undefined && !isNews(row, asOf)) return [];
  if (byId)
    return byId.known === null || spelling(urlOf(byId)) === spelling(link.url) ? [] : readLinks(query, taskId, moment);
  // One of ours that is not known any more was removed since: the event is late. If it is wanted, adding it shows.
  if (row.known === null && isAutomatic(link.externalId)) return [];
  // An event may also be about a link of ours from before the one that worksync removed last.
  const isDoubtful = asOf === undefined && row.remote_id !== null && row.hand !== 'removed';
  if (row.known !== null || isDoubtful) return readLinks(query, taskId, moment);
  const change = await findChange(query, row.entity);
  if (change && (change.state !== 'pending' || change.sent !== null)) return [];
  const known = JSON.stringify({ url: link.url, externalId: link.externalId ?? null } satisfies KnownLink);
  const sight = { receivedRevision, now: moment.now };
  await save(query, { ...row, known, remote_id: link.workItemId, hand: 'manual' }, sight);
  return row.item_key ? [row.item_key] : [];
}

async function readLinks(query: Scope, taskId: string, { now }: EvaluationContext): Promise<string[]> {
  await enqueueReads(query, [entity.readLinks(taskId)], now);
  return [];
}

/** The work items that go by this address, else the items whose provider spells it so, apart from a slash or a fragment. */
async function itemsAtAddress(query: Scope, address: string): Promise<readonly string[]> {
  const url = normalUrl(address);
  if (url === undefined) return [];
  const named = await itemsNamed(query, [nameOf.url(url)]);
  return named.length > 0
    ? named.map(({ itemKey }) => itemKey)
    : itemsAtUrl(query, `${URL.parse(address)?.protocol}//${url}`);
}

/** A person linked an item to a task: then that task is the item's task. */
async function keepForeign(
  query: Scope,
  link: ListedLink,
  { asOf, receivedRevision }: Pick<Answer, 'asOf' | 'receivedRevision'>,
  moment: EvaluationContext,
): Promise<string[]> {
  if (link.taskId === undefined || isAutomatic(link.externalId)) return [];
  const again: string[] = [];
  for (const itemKey of await itemsAtAddress(query, link.url)) {
    const name = entity.link(itemKey, link.taskId);
    const row = await findEntity(query, name);
    if (row && (row.hand !== 'gone' || (asOf !== undefined && !isNews(row, asOf)))) continue;
    // A link that worksync removed may have been made anew since, or the event is late.
    if (row && asOf === undefined) {
      await readLinks(query, link.taskId, moment);
      continue;
    }
    const known = JSON.stringify({ url: link.url, externalId: link.externalId ?? null } satisfies KnownLink);
    const ids = { item_key: itemKey, task_id: link.taskId, known, remote_id: link.workItemId, hand: 'manual' } as const;
    await save(query, blankEntity(name, 'link', ids), { receivedRevision, now: moment.now });
    again.push(itemKey);
  }
  return again;
}

const removal = z.object({ taskId: z.string(), workItemId: z.string(), url: z.string().nullish().catch(undefined) });

/** Somebody removed a link whose id is known. */
export async function applySeenRemoval(query: Scope, answer: Answer, moment: EvaluationContext): Promise<string[]> {
  const { taskId, workItemId, url } = removal.parse(answer.body);
  const rows = await allLinksOfTask(query, taskId);
  await loadChanges(query, rows);
  const row = rows.find((each) => each.remote_id === workItemId && each.known !== null);
  if (!row) {
    // Removed under an id that is not the one known here, or none is known: the links of the task say what is there.
    const mayBeIt = (each: EntityRow) =>
      each.known !== null && (each.remote_id === null || (url != null && urlOf(each) === url));
    const isOld = rows.some((each) => each.remote_id === workItemId);
    return rows.some(mayBeIt) && !isOld && answer.asOf === undefined ? readLinks(query, taskId, moment) : [];
  }
  if (answer.asOf !== undefined && !isNews(row, answer.asOf)) return [];
  if (url != null && spelling(urlOf(row)) !== spelling(url)) return readLinks(query, taskId, moment);
  const { asOf = 0, receivedRevision } = answer;
  await missing(query, row, { asOf, receivedRevision, now: moment.now, isSwept: false });
  return row.item_key ? [row.item_key] : [];
}
