import {
  displayNameOf,
  type Item,
  type ItemKey,
  type LinkReason,
  type PullRequest,
  pullRequestKey,
} from '../../../model/item.ts';
import { type EntityRow, linksOfItem, linksOfTask } from '../../../store/changes/entities.ts';
import { findChanges } from '../../../store/changes/outbox-rows.ts';
import { itemsNamed, saveItemNames } from '../../../store/items/item-names.ts';
import {
  findItem,
  findItems,
  type ItemRow,
  readFields,
  revertsOf,
  saveWorkflowFacts,
} from '../../../store/items/items.ts';
import { json, type Scope } from '../../../store/workspace-scope.ts';
import { nameOf } from '../link-rules/lookup-names.ts';
import { mergeTime, type Phase, phaseOf, type StoredPhase } from './phase.ts';
import { isRevert, type LinkedItem, type Workflow } from './workflow-rules.ts';

/**
 * Returns the items that are linked to a task, with the facts that rules test. A link that a person removed or that is
 * held does not count, one that waits in the outbox does. `isUnverified`: nothing from the provider has confirmed one of
 * the items since a restore.
 */
export async function linkedItemsOf(query: Scope, workflow: Workflow, taskId: string) {
  const links = (await linksOfTask(query, taskId)).filter(isLink);
  const names = links.map(({ entity }) => entity);
  const changes = await findChanges(query, names);
  const held = new Set(changes.filter(({ state }) => state === 'held').map(({ entity }) => entity));
  const counted = new Map(links.filter(({ entity }) => !held.has(entity)).map((row) => [row.item_key, row]));
  const rows = await findItems(query, [...counted.keys()]);
  const items: LinkedItem[] = [];
  for (const row of rows) {
    if (row.gone === 0) items.push(await linkedItem(query, workflow, row, counted.get(row.key) as LinkRow));
  }
  return { items, isUnverified: rows.some(({ unverified }) => unverified === 1) };
}

type LinkRow = EntityRow & { readonly item_key: string };

function isLink(row: EntityRow): row is LinkRow {
  return row.item_key !== null && row.hand !== 'removed' && (row.desired !== null || row.known !== null);
}

async function linkedItem(query: Scope, workflow: Workflow, row: ItemRow, link: LinkRow): Promise<LinkedItem> {
  const { item } = readFields(row);
  const { strength, place, namedAt } = textLinkOf(link, item);
  const others = (await linksOfItem(query, row.key)).filter(isLink).filter(({ entity }) => entity !== link.entity);
  const strengths = others.map((other) => textLinkOf(other, item).strength);
  return {
    name: displayNameOf(item) ?? item.key,
    item,
    connection: row.connection,
    phase: await phaseOfRow(query, workflow, row),
    strength,
    place,
    namedAt,
    carried: strengths.filter((each) => each !== 'mentioning').length + (strength === 'mentioning' ? 0 : 1),
    closesOther: strengths.includes('closing'),
  };
}

/** Returns how strongly a link binds an item to its task. */
function textLinkOf({ desired, hand }: EntityRow, item: Item): Pick<LinkedItem, 'strength' | 'place' | 'namedAt'> {
  const isWorkItem = item.kind === 'work_item';
  const reason = json<{ readonly reason?: LinkReason }>(desired)?.reason;
  if (hand === 'manual' || reason === undefined)
    return { strength: isWorkItem ? 'closing' : 'carrying', place: 'hand' };
  if (reason.rule === 'triage') return { strength: 'closing', place: 'triage' };
  const { strength = 'mentioning', carriedBy: place = reason.place, namedAt } = reason;
  if (isRevert(item)) return { strength: 'mentioning', place, namedAt };
  // The closing word may be in the description, where the words of a bot do not count.
  return { strength: item.isBot && strength === 'closing' ? 'carrying' : strength, place, namedAt };
}

/** Returns the present phase of a stored item. */
async function phaseOfRow(query: Scope, workflow: Workflow, row: ItemRow): Promise<Phase> {
  const stored = readFields(row);
  const { item } = stored;
  const revertedAt = item.kind === 'pull_request' ? await revertTime(query, workflow, item) : undefined;
  return phaseOf(stored, {
    ...(revertedAt !== undefined && { revertedAt }),
    hasLanded: workflow.hasLanded,
    hasSay: (review) => workflow.hasSay(item as PullRequest, review),
    ...(row.phase !== null && { stored: JSON.parse(row.phase) as StoredPhase }),
  });
}

/** Reverts of reverts that are followed. */
const MAX_DEPTH = 8;

/**
 * Returns when the last revert of a pull request was merged, epoch milliseconds; undefined if none is in effect. A
 * revert that was itself reverted has no effect, and neither has one by a stranger.
 */
async function revertTime(query: Scope, workflow: Workflow, reverted: Item, depth = 0): Promise<number | undefined> {
  const times: number[] = [];
  for (const row of await revertsOf(query, [reverted.key, ...commitNamesOf(reverted)])) {
    const stored = readFields(row);
    const { item } = stored;
    const mergedAt = item.gone ? undefined : mergeTime(stored);
    if (mergedAt === undefined || !workflow.isTrusted(item, row.connection) || depth >= MAX_DEPTH) continue;
    if ((await revertTime(query, workflow, item, depth + 1)) === undefined) times.push(mergedAt);
  }
  return times.length === 0 ? undefined : Math.max(...times);
}

/** Stores the present phase of an item, and the pull request that it reverts. */
export async function savePhase(query: Scope, workflow: Workflow, key: ItemKey, now: number): Promise<void> {
  const row = await findItem(query, key);
  if (row === undefined) return;
  const { item } = readFields(row);
  const { name, after, at } = await phaseOfRow(query, workflow, row);
  const phase = { name, after, at, seen: item.updatedAt } satisfies StoredPhase;
  await saveMergeCommits(query, item, now);
  await saveWorkflowFacts(query, key, { phase: JSON.stringify(phase), reverts: revertedName(item) });
}

/** Stores the commits that merged a pull request with a task, so that a revert finds it by its commit. */
async function saveMergeCommits(query: Scope, item: Item, now: number): Promise<void> {
  const names = commitNamesOf(item);
  if (names.length === 0 || (await linksOfItem(query, item.key)).length === 0) return;
  const placed = names.map((name) => ({ name, place: null, container: null }));
  await saveItemNames(query, item.key, { names: placed, former: [], now });
}

/** Returns the names of the commits that merged a pull request. */
function commitNamesOf(item: Item): readonly string[] {
  if (item.kind !== 'pull_request') return [];
  return [...new Set(item.mergeCommits?.map((hash) => nameOf.commit(item, item.repoId, hash)))];
}

/** Returns the key of the pull request that an item reverts, or the name of the commit. */
function revertedName(item: Item): string | null {
  if (item.kind !== 'pull_request') return null;
  const { connector, host, repoId, reverts, revertsCommit } = item;
  if (reverts != null) return pullRequestKey(connector, host, repoId, reverts);
  return revertsCommit == null ? null : nameOf.commit(item, repoId, revertsCommit);
}

/** Returns the links of the pull request that an item reverts, and of what that one reverts in turn. */
export async function linksOfReverted(query: Scope, item: Item): Promise<readonly EntityRow[]> {
  const links: EntityRow[] = [];
  let name = revertedName(item);
  for (let depth = 0; name !== null && depth < MAX_DEPTH; depth++) {
    const [ofCommit] = await itemsNamed(query, [name]);
    const key = ofCommit?.itemKey ?? name;
    links.push(...(await linksOfItem(query, key)));
    name = (await findItem(query, key))?.reverts ?? null;
  }
  return links;
}
