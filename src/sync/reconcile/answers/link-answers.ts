import { z } from 'zod';
import { entity, MAX_TIME_IN_FLIGHT } from '../../../model/change.ts';
import { mayBeCut } from '../../../model/delivery.ts';
import { externalIdOf, type ItemKey, isAutomatic } from '../../../model/item.ts';
import {
  allLinksOfItem,
  allLinksOfTask,
  blankEntity,
  type EntityRow,
  findEntity,
  mayUpdate,
  saveEntity,
} from '../../../store/changes/entities.ts';
import {
  dropDifference,
  findChange,
  findChanges,
  type OutboxRow,
  removeChange,
  saveChange,
} from '../../../store/changes/outbox-rows.ts';
import { itemsNamed } from '../../../store/items/item-names.ts';
import { itemsAtUrl } from '../../../store/items/items.ts';
import { currentRevision, OWN_KEY_ID, writeMeta } from '../../../store/meta.ts';
import { flushRows, runSequentially } from '../../../store/unit-of-work/unit-of-work.ts';
import { linksAreIdempotent } from '../../../store/workspace/server-capabilities.ts';
import { type Answer, enqueueReads, noteLinksRead } from '../../../store/workspace/workspace-reads.ts';
import { addFindings } from '../../../store/workspace/workspace-sweeps.ts';
import { json, type Scope } from '../../../store/workspace-scope.ts';
import type { AnswerContext } from '../context.ts';
import { type KnownLink, urlOfLink } from '../evaluate-links.ts';
import { nameOf, normalUrl } from '../link-rules/lookup-names.ts';
import { type ListedLink, type ListedRecord, linkList, linkShape } from './shapes.ts';

// An answer never overrides a state that became known after its request was sent (`mayUpdate`). The owner of a link
// follows from the writes of worksync. The `externalId` that a server returns counts only for links that worksync does
// not know, for example after the loss of its database.

/** An answer that reports the state of links or records. */
export interface Report {
  readonly answer: Answer;
  readonly now: number;
  /** Whether a sweep round reports what is found. */
  readonly isSwept: boolean;
}

/**
 * Compares the links of an item with its record, which names the tasks that link to its address. Links that people add
 * and remove are found in this way without a request. Returns whether a link has changed.
 */
export async function compareLinks(
  query: Scope,
  itemKey: ItemKey,
  record: ListedRecord,
  report: Report,
): Promise<boolean> {
  const links = await allLinksOfItem(query, itemKey);
  await loadChanges(query, links);
  let hasChanged = false;
  for (const link of links) {
    const exists = record.taskIds?.includes(link.task_id as string) ?? false;
    // A record lists only the links with its own address. After a rename at the provider the link has another one. A
    // server that stores addresses in its own spelling finds no task by ours.
    const known = json<KnownLink>(link.known);
    const isListed = known?.spelled === undefined && (known?.url ?? record.url) === record.url;
    if (!isListed || !mayUpdate(link, report.answer.asOf ?? 0)) continue;
    if (!exists) await applyMissingLink(query, link, report);
    else if (link.known === null) await applyRecordedLink(query, link, record, report);
    hasChanged ||= (await findEntity(query, link.entity))?.known !== link.known;
  }
  return hasChanged;
}

/** Loads the changes of entities by one statement. */
async function loadChanges(query: Scope, rows: readonly EntityRow[]): Promise<void> {
  const names = rows.map((row) => row.entity);
  await findChanges(query, names);
}

/**
 * Stores a link that the record shows. Its owner is unknown, so the links of the task are read before it is removed.
 */
async function applyRecordedLink(query: Scope, link: EntityRow, record: ListedRecord, report: Report): Promise<void> {
  const change = await findChange(query, link.entity);
  if (change && change.state !== 'pending') return;
  const url = json<KnownLink>(link.desired)?.url ?? record.url ?? undefined;
  await saveLink(query, { ...link, known: JSON.stringify({ url }), hand: null, remote_id: null }, report);
  await dropDifference(query, link.entity);
  if (report.isSwept) await addFindings(query, [{ what: 'link-added', entity: link.entity }], report.now);
}

/** Saves a link as of the receipt of the answer, so that the answer to a later request may override it. */
async function saveLink(query: Scope, row: EntityRow, { answer, now }: Omit<Report, 'isSwept'>): Promise<void> {
  await saveEntity(query, {
    ...row,
    known_at: now,
    revision: answer.receivedRevision ?? (await currentRevision(query)),
  });
}

/** Stores that the workspace does not have a link: our removal took effect, or a person removed it. */
async function applyMissingLink(query: Scope, link: EntityRow, report: Report): Promise<void> {
  if (link.known === null) return;
  const change = await findChange(query, link.entity);
  if (change?.state === 'sending') return;
  const isOurRemoval = change !== undefined && (link.desired === null || sentAction(change) === 'remove-link');
  if (isOurRemoval) return settleRemoval(query, link, change, report);
  if (change !== undefined) return;
  const hand = link.desired === null ? 'gone' : 'removed';
  await saveLink(query, { ...link, known: null, hand }, report);
  if (report.isSwept) await addFindings(query, [{ what: 'link-removed', entity: link.entity }], report.now);
}

/** Settles a removal that waits, or whose answer was lost, because it has taken effect. */
async function settleRemoval(query: Scope, link: EntityRow, change: OutboxRow, report: Report): Promise<void> {
  await saveLink(query, { ...link, known: null, hand: link.desired === null ? 'gone' : null }, report);
  if (link.desired === null) return removeChange(query, change.entity);
  // The link became desired again meanwhile.
  await saveChange(query, { ...change, sent: null, state: 'pending', attempts: 0, effect: 'creation' });
}

function sentAction({ sent }: OutboxRow): string | undefined {
  return json<{ action?: string }>(sent)?.action;
}

/** Applies the answer to our own addition. On an idempotent server it may name a link that a person made before. */
export async function applyAddedLink(query: Scope, answer: Answer): Promise<ItemKey[]> {
  const link = linkShape.nullish().parse(answer.body);
  const row = await findEntity(query, answer.entity);
  if (!row) return [];
  if (link && row.known !== null && mayUpdate(row, answer.asOf ?? 0)) {
    const isForeign = answer.status === 200 && !isAutomatic(link.externalId) && (await mayBeExisting(query, row));
    const url = json<KnownLink>(row.known)?.url ?? link.url;
    const own = { url, externalId: externalIdOf(row.item_key ?? ''), ...serverSpelling(link.url, url) };
    const foreign = { url: link.url, externalId: link.externalId ?? null };
    const known = JSON.stringify((isForeign ? foreign : own) satisfies KnownLink);
    await saveEntity(query, { ...row, known, remote_id: link.workItemId, hand: isForeign ? 'manual' : null });
  }
  return row.item_key ? [row.item_key] : [];
}

/** Returns the server's spelling of an address if it differs from ours. */
function serverSpelling(theirs: string | undefined, ours: string | undefined): Pick<KnownLink, 'spelled'> {
  return theirs === undefined || theirs === ours ? {} : { spelled: theirs };
}

/** Removes from an address what servers may drop. */
function comparableUrl(url: string | undefined): string | undefined {
  return url?.split('#', 1)[0]?.replace(/\/$/, '').toLowerCase();
}

/** Whether the answer may name a link that existed before. Not after an own attempt whose answer was lost. */
async function mayBeExisting(query: Scope, { written }: EntityRow): Promise<boolean> {
  const isRepeat = json<{ isRepeat?: boolean }>(written)?.isRepeat ?? false;
  return !isRepeat && (await linksAreIdempotent(query));
}

/**
 * Applies a link that an event of the workspace reports, which may be minutes late, or the answer to another client. A
 * link with an unknown id is added; one that was removed under this id stays removed. If the address is known under
 * another id, the links of the task are read, because only they show which of the two exists.
 */
export async function applyReportedLink(query: Scope, answer: Answer, { now }: AnswerContext): Promise<ItemKey[]> {
  const link = linkShape.parse(answer.body);
  const { asOf } = answer;
  const taskId = link.taskId ?? '';
  const rows = await allLinksOfTask(query, taskId);
  await loadChanges(query, rows);
  const byId = rows.find((row) => row.remote_id === link.workItemId);
  const row = byId ?? rows.find((each) => urlOfLink(each) === link.url);
  if (!row) return saveForeignLink(query, link, answer, now);
  if (asOf !== undefined && !mayUpdate(row, asOf)) return [];
  if (byId) {
    await learnOwnKey(query, byId, answer);
    const isUnchanged = byId.known === null || comparableUrl(urlOfLink(byId)) === comparableUrl(link.url);
    return isUnchanged ? [] : requestLinks(query, taskId, now);
  }
  // A link of ours that is no longer known was removed since, so the event is late. If it is desired, its addition will
  // show it.
  if (row.known === null && isAutomatic(link.externalId)) return [];
  // An event may also report a link of ours that existed before the one that worksync removed last.
  const isDoubtful = asOf === undefined && row.remote_id !== null && row.hand !== 'removed';
  if (row.known !== null || isDoubtful) return requestLinks(query, taskId, now);
  const change = await findChange(query, row.entity);
  if (change && (change.state !== 'pending' || change.sent !== null)) return [];
  const known = JSON.stringify({ url: link.url, externalId: link.externalId ?? null } satisfies KnownLink);
  await saveLink(query, { ...row, known, remote_id: link.workItemId, hand: 'manual' }, { answer, now });
  return row.item_key ? [row.item_key] : [];
}

/** Stores the id of the key that an event reports for a link that worksync added. */
async function learnOwnKey(query: Scope, { known, hand }: EntityRow, { key }: Answer): Promise<void> {
  const isOwn = hand === null && isAutomatic(json<KnownLink>(known)?.externalId);
  if (key !== undefined && isOwn) await writeMeta(query, OWN_KEY_ID, key);
}

/** Requests the links of a task. Their answer decides which items are evaluated, so the list is empty. */
async function requestLinks(query: Scope, taskId: string, now: number): Promise<ItemKey[]> {
  await enqueueReads(query, [entity.readLinks(taskId)], now);
  return [];
}

/** Saves a link that a person added: its task is the item's task. Returns the items to evaluate. */
async function saveForeignLink(query: Scope, link: ListedLink, answer: Answer, now: number): Promise<ItemKey[]> {
  const { asOf } = answer;
  if (link.taskId === undefined || isAutomatic(link.externalId)) return [];
  const reevaluate: ItemKey[] = [];
  for (const itemKey of await itemsAtAddress(query, link.url)) {
    const name = entity.link(itemKey, link.taskId);
    const row = await findEntity(query, name);
    if (row && (row.hand !== 'gone' || (asOf !== undefined && !mayUpdate(row, asOf)))) continue;
    // A person may have added again a link that worksync removed, or the event is late.
    if (row && asOf === undefined) {
      await requestLinks(query, link.taskId, now);
      continue;
    }
    const known = JSON.stringify({ url: link.url, externalId: link.externalId ?? null } satisfies KnownLink);
    const ids = { item_key: itemKey, task_id: link.taskId, known, remote_id: link.workItemId, hand: 'manual' } as const;
    await saveLink(query, blankEntity(name, 'link', ids), { answer, now });
    reevaluate.push(itemKey);
  }
  return reevaluate;
}

/** Returns the work items with this address, else the items whose provider uses it, ignoring a slash or a fragment. */
async function itemsAtAddress(query: Scope, address: string): Promise<readonly ItemKey[]> {
  const url = normalUrl(address);
  if (url === undefined) return [];
  const named = await itemsNamed(query, [nameOf.url(url)]);
  if (named.length > 0) return named.map(({ itemKey }) => itemKey);
  // The items of this batch are found by a statement of its own.
  await flushRows(query);
  return itemsAtUrl(query, `${URL.parse(address)?.protocol}//${url}`);
}

const removalShape = z.object({
  taskId: z.string(),
  workItemId: z.string(),
  url: z.string().nullish().catch(undefined),
});

/** Applies the removal of a link that an event, or the answer to another client, reports. */
export async function applyReportedRemoval(query: Scope, answer: Answer, { now }: AnswerContext): Promise<ItemKey[]> {
  const { taskId, workItemId, url } = removalShape.parse(answer.body);
  const rows = await allLinksOfTask(query, taskId);
  await loadChanges(query, rows);
  const row = rows.find((each) => each.remote_id === workItemId && each.known !== null);
  if (!row) {
    // The removed id is not known. If a known link may have it, the links of the task show which ones exist.
    const mayBeRemoved = (each: EntityRow) =>
      each.known !== null && (each.remote_id === null || (url != null && urlOfLink(each) === url));
    const isOld = rows.some((each) => each.remote_id === workItemId);
    return rows.some(mayBeRemoved) && !isOld && answer.asOf === undefined ? requestLinks(query, taskId, now) : [];
  }
  if (answer.asOf !== undefined && !mayUpdate(row, answer.asOf)) return [];
  if (url != null && comparableUrl(urlOfLink(row)) !== comparableUrl(url)) return requestLinks(query, taskId, now);
  await applyMissingLink(query, row, { answer, now, isSwept: false });
  return row.item_key ? [row.item_key] : [];
}

/** Applies the list of all links of one task, with their owners and ids. */
export async function applyLinkList(query: Scope, given: Answer, { now }: AnswerContext): Promise<ItemKey[]> {
  const { asOf = 0 } = given;
  const answer = { ...given, asOf };
  const { workItems, isLast = null, unreadable } = linkList.parse(answer.body);
  const isComplete = isLast !== false && unreadable === 0 && !mayBeCut(workItems.length, isLast);
  const taskId = answer.entity.slice(entity.readLinks('').length);
  const report = { answer, now, isSwept: true };
  const reevaluate: ItemKey[] = [];
  const rows = await allLinksOfTask(query, taskId);
  await loadChanges(query, rows);
  const addresses = await addressesOf(query, rows);
  const matches = matchLinks(rows, workItems, addresses);
  for (const row of rows) {
    if (!mayUpdate(row, asOf)) continue;
    const link = matches.get(row.entity);
    if (link) await applyListedLink(query, row, link, addresses.get(row.entity), report);
    else if (isComplete) await applyMissingLink(query, row, report);
    if (row.item_key) reevaluate.push(row.item_key);
  }
  const revision = Math.min(asOf + 1, ...(await unsettledRevisions(query, rows, answer)));
  await noteLinksRead(query, taskId, { revision, sentAt: answer.sentAt });
  const matched = new Set(matches.values());
  const others = workItems.filter((link) => !matched.has(link));
  const works = others.map((link) => (own: Scope) => saveForeignLink(own, { ...link, taskId }, answer, now));
  const foreign = (await runSequentially(query, works)).flat();
  const findings = foreign.map((key) => ({ what: 'link-added' as const, entity: entity.link(key, taskId) }));
  await addFindings(query, findings, now);
  return [...reevaluate, ...foreign];
}

/**
 * Returns the listed link of each row: by its id, else by its address. Servers may drop the slash, the case or the
 * fragment of an address, so such a spelling counts only if it matches a single row.
 */
function matchLinks(
  rows: readonly EntityRow[],
  links: readonly ListedLink[],
  addresses: ReadonlyMap<string, string>,
): Map<string, ListedLink> {
  const matches = new Map<string, ListedLink>();
  const match = (fits: (row: EntityRow, link: ListedLink) => boolean, isUnique = true) => {
    for (const row of rows) {
      if (matches.has(row.entity)) continue;
      const free = links.filter((link) => ![...matches.values()].includes(link) && fits(row, link));
      const [link] = free;
      const rivals = rows.filter((other) => link !== undefined && !matches.has(other.entity) && fits(other, link));
      if (link !== undefined && (isUnique || (free.length === 1 && rivals.length === 1))) matches.set(row.entity, link);
    }
  };
  match((row, link) => row.known !== null && row.remote_id === link.workItemId);
  match((row, link) => addresses.get(row.entity) === link.url);
  match((row, link) => comparableUrl(addresses.get(row.entity)) === comparableUrl(link.url), false);
  return matches;
}

interface SentAddition {
  readonly action: string;
  readonly sentAt: number;
  readonly revision: number;
  readonly body?: { readonly url?: string };
}

async function sentRequest(query: Scope, row: EntityRow): Promise<SentAddition | undefined> {
  return json<SentAddition>((await findChange(query, row.entity))?.sent ?? null);
}

/**
 * Returns the revisions of additions that may have been in flight when this list was requested. The list does not
 * settle them: the links are read again before they are repeated.
 */
async function unsettledRevisions(query: Scope, rows: readonly EntityRow[], { sentAt }: Answer): Promise<number[]> {
  const revisions: number[] = [];
  for (const row of rows) {
    const sent = await sentRequest(query, row);
    if (sent?.action === 'add-link' && sentAt < sent.sentAt + MAX_TIME_IN_FLIGHT) revisions.push(sent.revision);
  }
  return revisions;
}

/**
 * Returns the addresses of links by their entities, including a link that is no longer desired but whose addition was
 * sent.
 */
async function addressesOf(query: Scope, rows: readonly EntityRow[]): Promise<ReadonlyMap<string, string>> {
  const addresses = new Map<string, string>();
  for (const row of rows) {
    const sent = await sentRequest(query, row);
    const url = urlOfLink(row) ?? sent?.body?.url;
    if (url !== undefined) addresses.set(row.entity, url);
  }
  return addresses;
}

/** @param ours the address in our spelling */
async function applyListedLink(
  query: Scope,
  row: EntityRow,
  link: ListedLink,
  ours: string | undefined,
  report: Report,
): Promise<void> {
  const change = await findChange(query, row.entity);
  if (change?.state === 'sending') return;
  const isOurs = isOwn(row, link, change);
  // Our spelling is kept if the server's address differs only in its spelling.
  const url = comparableUrl(ours) === comparableUrl(link.url) ? ours : link.url;
  const known = {
    url,
    ...serverSpelling(link.url, url),
    externalId: isOurs ? externalIdOf(row.item_key ?? '') : (link.externalId ?? null),
  } satisfies KnownLink;
  const hand = isOurs ? null : 'manual';
  await saveLink(query, { ...row, known: JSON.stringify(known), remote_id: link.workItemId, hand }, report);
  const isLostAddition = change !== undefined && sentAction(change) === 'add-link';
  // A record may have shown the link before. The lost addition is settled in that case too.
  if (row.known !== null && !isLostAddition) return;
  // The link that a change was to add exists, perhaps because of a request whose answer was lost.
  if (change?.sent != null) await saveChange(query, { ...change, sent: null, state: 'pending', attempts: 0 });
  await dropDifference(query, row.entity);
  if (report.isSwept && change?.sent == null)
    await addFindings(query, [{ what: 'link-added', entity: row.entity }], report.now);
}

/**
 * Decides whether worksync wrote a link: it is known as ours under the same id, or it appeared after a lost addition. A
 * record, which does not show the owner, may have shown the latter link since.
 */
function isOwn(row: EntityRow, link: ListedLink, change: OutboxRow | undefined): boolean {
  const known = json<KnownLink>(row.known);
  const isSame = row.remote_id === null || row.remote_id === link.workItemId;
  if (known !== undefined && row.hand === 'manual') return false;
  if (known?.externalId !== undefined && isSame) return true;
  const isOwnerUnknown = known?.externalId === undefined;
  return isAutomatic(link.externalId) || (isOwnerUnknown && change !== undefined && sentAction(change) === 'add-link');
}
