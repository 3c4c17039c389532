import { entity, MAX_TIME_IN_FLIGHT } from '../../../model/change.ts';
import { mayBeCut } from '../../../model/delivery.ts';
import { externalIdOf, type ItemKey, isAutomatic } from '../../../model/item.ts';
import { allLinksOfTask, type EntityRow } from '../../../store/changes/entities.ts';
import { dropDifference, findChange, type OutboxRow, saveChange } from '../../../store/changes/outbox-rows.ts';
import { mayUpdate } from '../../../store/changes/revision.ts';
import { runSequentially } from '../../../store/unit-of-work/unit-of-work.ts';
import { type Answer, noteLinksRead } from '../../../store/workspace/workspace-reads.ts';
import { addFindings } from '../../../store/workspace/workspace-sweeps.ts';
import { json, type Scope } from '../../../store/workspace-scope.ts';
import type { AnswerContext } from '../context.ts';
import type { KnownLink } from '../evaluate-links.ts';
import {
  applyMissingLink,
  comparableUrl,
  loadChanges,
  type Report,
  saveForeignLink,
  saveLink,
  sentAction,
  serverSpelling,
  urlOf,
} from './link-answers.ts';
import { type ListedLink, linkList } from './shapes.ts';

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
    const url = urlOf(row) ?? sent?.body?.url;
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
