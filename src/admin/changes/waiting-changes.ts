import { z } from 'zod';
import {
  CHANGE_STATES,
  type ChangeState,
  entity as entityName,
  HELD_CLASSES,
  type HeldClass,
  LANES,
  type Lane,
  settlement,
  taskOfLinkRead,
} from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import { describeUpdate, type TaskUpdate } from '../../model/task.ts';
import { didYouMean } from '../../platform/lib/text.ts';
import { type EntityRow, findEntities } from '../../store/changes/entities.ts';
import { type HeldChanges, heldChanges, releaseHeld } from '../../store/changes/held-changes.ts';
import {
  changesInState,
  changesOfItems,
  findChange,
  findChanges,
  type OutboxRow,
  removeChange,
  retryChange,
  waitingByLane,
} from '../../store/changes/outbox-rows.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import type { Throttle } from '../../sync/quota/throttle.ts';
import type { Rules } from '../../sync/reconcile/context.ts';
import { entityNamesOf, findItems, findTask, nameEntities } from '../items/human-names.ts';
import { countSchema, type OpenWorkspace, operation, textSchema } from '../open-workspace.ts';

export interface ListedChange {
  /** Names it in commands; the item's name works too. */
  readonly entity: string;
  /** `owner/repo#12 Pay by card`; null for a read of the workspace. */
  readonly name: string | null;
  /** See `describeUpdate`; null for all but updates of tasks. */
  readonly sets: string | null;
  readonly kind: OutboxRow['kind'];
  readonly effect: OutboxRow['effect'];
  readonly lane: OutboxRow['lane'];
  readonly state: ChangeState;
  /** Epoch milliseconds: the time when the difference appeared, when it is due, and before which it is not tried. */
  readonly since: number;
  readonly due: number;
  readonly notBefore: number;
  /**
   * Expected time of sending at the present share of the quota if nothing else arrives, epoch milliseconds; null if it is not
   * pending, or if nothing is sent.
   */
  readonly expectedAt: number | null;
  readonly attempts: number;
  readonly error: string | null;
}

export interface ShownChange extends ListedChange {
  /** The desired and the known state in the workspace; null: nothing. */
  readonly desired: unknown;
  readonly known: unknown;
}

/** Returns the changes that wait, by state, the first due first. */
export async function listChanges(
  workspace: OpenWorkspace,
  { states = CHANGE_STATES, limit }: { readonly states?: readonly ChangeState[]; readonly limit: number },
): Promise<readonly ListedChange[]> {
  const { query } = workspace.store;
  const rows: OutboxRow[] = [];
  for (const state of states) rows.push(...(await changesInState(query, state, limit - rows.length)));
  const { describe, entities } = await namesOf(query, rows);
  const { state } = await workspace.status();
  if (state.kind === 'halted') return rows.map(describe);
  const ahead = requestsAhead(await waitingByLane(query), rows);
  const reads = await linkReadsOf(query, [...entities.values()]);
  return rows.map((row) => {
    const first = row.kind === 'link' ? reads.get(entities.get(row.entity)?.task_id ?? '') : undefined;
    return { ...describe(row), expectedAt: expectedAt(row, first, ahead.get(row.entity), workspace.throttle) };
  });
}

/** Returns the pending reads of the links of these entities' tasks, by task. The first link of a task waits for such a read. */
async function linkReadsOf(query: Scope, rows: readonly EntityRow[]): Promise<ReadonlyMap<string, OutboxRow>> {
  const tasks = new Set(rows.flatMap(({ kind, task_id }) => (kind === 'link' && task_id !== null ? [task_id] : [])));
  const reads = await findChanges(query, [...tasks].map(entityName.readLinks));
  return new Map(reads.map((read) => [taskOfLinkRead(read.entity) as string, read]));
}

/** Counts the requests before each pending change: of more urgent lanes, and earlier ones of its own lane. */
function requestsAhead(
  waiting: readonly { readonly lane: Lane; readonly count: number }[],
  rows: readonly OutboxRow[],
): ReadonlyMap<string, number> {
  const counts = new Map(waiting.map(({ lane, count }) => [lane, count]));
  const next = new Map<Lane, number>();
  let before = 0;
  for (const lane of LANES) {
    next.set(lane, before);
    before += counts.get(lane) ?? 0;
  }
  const ahead = new Map<string, number>();
  for (const { entity, lane } of rows.filter(({ state }) => state === 'pending')) {
    const count = (next.get(lane) ?? 0) + 1;
    next.set(lane, count);
    ahead.set(entity, count);
  }
  return ahead;
}

/** @param first the read that is sent before the change, which then no longer waits for its own time */
function expectedAt(
  change: OutboxRow,
  first: OutboxRow | undefined,
  requests: number | undefined,
  { drainedAt }: Pick<Throttle, 'drainedAt'>,
): number | null {
  if (requests === undefined) return null;
  const { due, not_before } = first ?? change;
  const sent = drainedAt(requests + (first ? 1 : 0), change.lane === 'backfill' ? 1 : 0);
  return Math.max(change.due, due, not_before, sent);
}

/** Changes, or items by their addresses or usual names. */
const targetsSchema = z.strictObject({ targets: z.array(textSchema).min(1).max(1_000).readonly() });

type Named = z.infer<typeof targetsSchema>;

async function showChanges(
  { store: { query }, rules }: OpenWorkspace,
  { targets }: Named,
): Promise<readonly ShownChange[]> {
  const rows = await rowsNamed(query, targets, rules);
  const { describe, entities } = await namesOf(query, rows);
  const read = (text: string | null | undefined) => (text == null ? null : (JSON.parse(text) as unknown));
  return rows.map((row) => {
    const stored = entities.get(row.entity);
    return { ...describe(row), desired: read(stored?.desired), known: read(stored?.known) };
  });
}

/**
 * Tries changes again at once: failed ones without their pause, held ones despite the limits. A change with unknown outcome that
 * must not be repeated (the creation of a task) waits for the read that settles it.
 *
 * Throws `not_found`, or `conflict` if one cannot be tried again; then nothing was done.
 */
async function retryChanges({ store, wakeOutbox, rules }: OpenWorkspace, { targets }: Named) {
  const done = await store.commit(async (query) => {
    const rows = await rowsNamed(query, targets, rules, whyNoRetry);
    for (const row of rows) await retryChange(query, row);
    return rows.map(({ entity }) => entity);
  });
  wakeOutbox();
  return { retried: done };
}

function whyNoRetry({ state, kind }: OutboxRow): string | undefined {
  if (state === 'sending') return 'its request is under way';
  if (state === 'unknown' && settlement(kind) === 'list')
    return 'nobody knows whether it was created: worksync looks for it in a list first, so that nothing is created twice';
  return undefined;
}

/**
 * Forgets changes that were not sent. The desired state stays known, so a later change of the item, or of the rules, creates the
 * change again.
 *
 * Throws `not_found`, or `conflict` if one cannot be dropped; then nothing was done.
 */
async function dropChanges({ store, rules }: OpenWorkspace, { targets }: Named) {
  const dropped = await store.commit(async (query) => {
    const rows = await rowsNamed(query, targets, rules, whyNoDrop);
    for (const row of rows) await removeChange(query, row.entity);
    return rows.map(({ entity }) => entity);
  });
  return { dropped };
}

function whyNoDrop({ state, kind, sent }: OutboxRow): string | undefined {
  if (kind === 'read') return 'worksync needs what it reads there';
  if (sent !== null || state === 'sending' || state === 'unknown')
    return 'its request was sent, and its outcome is not known yet';
  return undefined;
}

/**
 * Returns the entities of the held changes that these names match: entities, or names of items. A name without a held change is
 * returned unchanged.
 */
async function heldNamed(query: Scope, targets: readonly string[], rules: Rules): Promise<readonly string[]> {
  const found = new Set<string>();
  for (const target of targets) {
    const rows = await changesNamed(query, target, rules);
    const held = rows.filter(({ state }) => state === 'held').map(({ entity }) => entity);
    for (const entity of held.length > 0 ? held : [target]) found.add(entity);
  }
  return [...found];
}

/** Changes that are searched for suggestions. */
const LOOKED_THROUGH = 500;

/**
 * Throws `not_found` if one of them names no change.
 *
 * @param whyNot the reason against one of them, which throws `conflict`
 */
async function rowsNamed(
  query: Scope,
  targets: readonly string[],
  rules: Rules,
  whyNot?: (row: OutboxRow) => string | undefined,
): Promise<readonly OutboxRow[]> {
  const found = new Map<string, OutboxRow>();
  for (const target of targets) {
    const rows = await changesNamed(query, target, rules);
    if (rows.length === 0) throw await unknownChange(query, target);
    for (const row of rows) found.set(row.entity, row);
  }
  const rows = [...found.values()];
  const refused = rows.find((row) => whyNot?.(row) !== undefined);
  if (!refused) return rows;
  const names = await entityNamesOf({ store: { query } }, [refused]);
  throw new SyncError('conflict', `${names[refused.entity]?.label}: ${whyNot?.(refused)}. Nothing was done.`);
}

/** Returns the changes that a name means: an entity, a task (`BUG-12`, or `update:BUG-12` as in texts), or an item. */
async function changesNamed(query: Scope, target: string, rules: Rules): Promise<readonly OutboxRow[]> {
  const exact = await findChange(query, target);
  if (exact) return [exact];
  const task = await findTask(query, target.replace(/^update:/, ''));
  const update = task && (await findChange(query, entityName.taskUpdate(task.taskId)));
  return update ? [update] : changesOfItems(query, await findItems(query, target, rules));
}

async function unknownChange(query: Scope, target: string): Promise<SyncError> {
  const known: string[] = [];
  for (const state of CHANGE_STATES)
    known.push(...(await changesInState(query, state, LOOKED_THROUGH)).map(({ entity }) => entity));
  const hint = 'Name the item of the change, as "worksync changes" shows it. Nothing was done.';
  return new SyncError('not_found', `no change waits for ${target}${didYouMean(target, known)}`, { hint });
}

async function namesOf(query: Scope, rows: readonly OutboxRow[]) {
  const stored = await findEntities(
    query,
    rows.map(({ entity }) => entity),
  );
  const entities = new Map(stored.map((row) => [row.entity, row]));
  const names = await nameEntities(query, stored);
  const nameOf = ({ entity, item_key }: EntityRow): string => {
    const { item = null, task = null } = names.get(entity) ?? {};
    return [item?.label ?? item_key, task?.name ?? null].filter((part) => part !== null).join(' → ');
  };
  const describe = (row: OutboxRow): ListedChange => {
    const { entity, not_before: notBefore, kind, effect, lane, state, since, due, attempts, error } = row;
    const about = entities.get(entity);
    const name = about ? nameOf(about) : null;
    const update = kind === 'task_update' ? json<TaskUpdate>(about?.desired ?? null) : undefined;
    const sets = update ? describeUpdate(update) : null;
    const times = { since, due, notBefore, expectedAt: null };
    return { entity, name, sets, kind, effect, lane, state, ...times, attempts, error };
  };
  return { entities, describe };
}

type NamedHeldChange = HeldChanges[HeldClass]['samples'][number] & { readonly label: string };

export type NamedHeldChanges = Readonly<
  Record<HeldClass, { readonly count: number; readonly samples: readonly NamedHeldChange[] }>
>;

/** The held changes by group: how many, and the first of them. */
async function namedHeldChanges(
  workspace: OpenWorkspace,
  { samples }: { readonly samples: number },
): Promise<NamedHeldChanges> {
  const held = await heldChanges(workspace.store.query, samples);
  const names = await entityNamesOf(
    workspace,
    HELD_CLASSES.flatMap((each) => held[each].samples),
  );
  const named = (sample: HeldChanges[HeldClass]['samples'][number]): NamedHeldChange => ({
    ...sample,
    label: names[sample.entity]?.label ?? sample.entity,
  });
  const entries = HELD_CLASSES.map((each) => [each, { ...held[each], samples: held[each].samples.map(named) }]);
  return Object.fromEntries(entries) as NamedHeldChanges;
}

export const heldOperations = {
  held: operation({ body: z.strictObject({ samples: countSchema }), run: namedHeldChanges }),
  release: operation({
    body: z.strictObject({
      classes: z.array(z.enum(HELD_CLASSES)).readonly().optional(),
      entities: z.array(textSchema).max(100_000).readonly().optional(),
    }),
    async run({ store, wakeOutbox, rules }, wanted) {
      const entities = await heldNamed(store.query, wanted.entities ?? [], rules);
      const released = await releaseHeld(store, { ...wanted, entities });
      wakeOutbox();
      return { released };
    },
    audit: {
      subject: ({ classes = [], entities = [] }) => [...classes, ...entities].join(', ') || null,
      count: ({ released }) => released,
    },
    async preview({ store }, { classes = [], entities = [] }) {
      const held = await heldChanges(store.query, 0);
      return [...new Set(classes)].reduce((sum, each) => sum + held[each].count, entities.length);
    },
  }),
};

const subject = ({ targets }: Named) => targets.join(', ');

export const changeOperations = {
  changes: operation({
    body: z.strictObject({ states: z.array(z.enum(CHANGE_STATES)).readonly().optional(), limit: countSchema }),
    run: listChanges,
  }),
  'changes-show': operation({ body: targetsSchema, run: showChanges }),
  'changes-retry': operation({
    body: targetsSchema,
    run: retryChanges,
    audit: { subject, count: ({ retried }) => retried.length },
    preview: async ({ store, rules }, { targets }) => (await rowsNamed(store.query, targets, rules, whyNoRetry)).length,
  }),
  'changes-drop': operation({
    body: targetsSchema,
    run: dropChanges,
    audit: { subject, count: ({ dropped }) => dropped.length },
    preview: async ({ store, rules }, { targets }) => (await rowsNamed(store.query, targets, rules, whyNoDrop)).length,
  }),
};
