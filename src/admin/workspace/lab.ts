import { z } from 'zod';
import { taskOfLinkRead } from '../../model/change.ts';
import { SyncError } from '../../model/errors.ts';
import type { Item, ItemKey, LinkReason } from '../../model/item.ts';
import { describeUpdate, type TaskUpdate } from '../../model/task.ts';
import type { WorkspaceConfig } from '../../platform/config/schema.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { createAdaptiveBatchSize, yieldForRequests } from '../../platform/lib/concurrency.ts';
import { type EntityRow, findEntity, linksOfItem } from '../../store/changes/entities.ts';
import { countWaiting, type OutboxRow } from '../../store/changes/outbox-rows.ts';
import { itemsMentioningOther } from '../../store/items/item-names.ts';
import { findItem, findItems, itemsAfter, readFields } from '../../store/items/items.ts';
import { readCounts } from '../../store/status/counts.ts';
import { taskIdPrefixes, taskNameOf } from '../../store/tasks/stored-tasks.ts';
import { beginDryRun, type DryRun } from '../../store/unit-of-work/unit-of-work.ts';
import { json, type Scope } from '../../store/workspace-scope.ts';
import type { Evaluation, EvaluationContext, Rules } from '../../sync/reconcile/context.ts';
import { EvaluationQueue } from '../../sync/reconcile/evaluate.ts';
import { digestOf, rulesEvaluatedBy } from '../../sync/reconcile/reconcile.ts';
import { desiredLinks, mentionsToStore, resolveReadOnly } from '../../sync/reconcile/resolve.ts';
import { ANSWER_MS, countSchema, type OpenWorkspace, operation, type TriedConfig } from '../open-workspace.ts';

export const EFFECTS_OF_RULES = [
  'add-link',
  'remove-link',
  'record',
  'create-task',
  'update-task',
  'attach-document',
] as const;
export type EffectOfRules = (typeof EFFECTS_OF_RULES)[number];

/** The effects that a configuration would have if it were in use. Nothing is written, and no request is sent. */
export interface LabReport {
  /** Whether every open item was evaluated by the same rules, and nothing else that decides on writes differs. */
  readonly inUse: boolean;
  readonly items: { readonly open: number; readonly finished: number };
  /** The limit that ended it early, and the number of stored items, including those that are gone; null: all were tried. */
  readonly ended: { readonly by: LabEnd; readonly held: number } | null;
  /** Items of connections that the configuration does not have: their records and links stay as they are. */
  readonly without: readonly { readonly connection: string; readonly items: number }[];
  readonly effects: readonly {
    readonly effect: EffectOfRules;
    /** New writes for open items: they would be sent soon. */
    readonly added: number;
    /** Pending changes that would no longer be needed. */
    readonly dropped: number;
    /** New writes for finished items: each would be sent when its item changes. */
    readonly later: number;
  }[];
  /** Requests that the open items would cause, and the expected time of the last one, epoch milliseconds. */
  readonly requests: number;
  readonly drainedAt: number;
  readonly samples: readonly LabSample[];
}

/** One write that the configuration would cause, or would make unnecessary. */
export interface LabSample {
  readonly effect: EffectOfRules;
  readonly change: 'added' | 'dropped' | 'later';
  readonly item: ItemKey | null;
  readonly title: string | null;
  readonly url: string | null;
  readonly task: string | null;
  readonly reason: LinkReason | null;
  /** See `describeUpdate`; null for all but updates of tasks. */
  readonly sets: string | null;
}

/** The limit that ends it: the number of items, or the time. */
export type LabEnd = 'items' | 'time';

/** Limits of the evaluation, so that a daemon with millions of items continues its work. */
export interface LabBounds {
  readonly items: number;
  /** Milliseconds of the wall clock; one batch is always tried. */
  readonly time: number;
}

/** An item takes about 100 µs; the time limit is for busy machines. */
const BOUNDS: LabBounds = { items: 250_000, time: 120_000 };

/** Items of one batch: the event loop is blocked for that long. */
const ITEMS = { least: 20, most: 2_000 };

/**
 * Evaluates the items with another configuration, in memory and in batches, and reports the writes. It uses the stored items:
 * what another scope would bring from the provider is unknown.
 *
 * @param config the text of a workspace file
 * @param limit number of samples of each effect. Throws `config_invalid`.
 */
async function tryRules(
  workspace: OpenWorkspace,
  { config: text, limit }: { readonly config: string; readonly limit: number },
  clock: Clock,
  bounds = BOUNDS,
): Promise<LabReport> {
  const { query } = workspace.store;
  const tried = await workspace.compile(text);
  const { config, rules } = tried;
  if (config.name !== workspace.name)
    throw new SyncError('usage', `the configuration is of workspace ${config.name}, not of ${workspace.name}`);
  const lookedBy = await rulesEvaluatedBy(query);
  const idPrefixes = await taskIdPrefixes(query);
  const isOther = partsThatDiffer(workspace.config, config);
  const inUse = lookedBy === digestOf(rules, idPrefixes) && Object.values(isOther).every((differs) => !differs);
  const tally = new Tally(query, limit, config.rules.workflow?.since === undefined);
  const context = { ...tried, rules: overHistory(tried.rules), isOther, now: clock.now(), usedShare: 0, idPrefixes };
  const by = await tryAll(query, context, tally, { clock, ...bounds });
  const ended = by === undefined ? null : { by, held: (await readCounts(query)).items };
  return { inUse, ended, ...(await tally.report(workspace)) };
}

/** Applies the rules for statuses to all states, also to those before `since`, so that the report shows their effect. */
function overHistory(rules: Rules): Rules {
  return { ...rules, workflow: { ...rules.workflow, since: rules.workflow.since ?? 0 } };
}

/** Tries the open items first, because their writes would be sent soon. @returns the limit that ended it before all were tried */
async function tryAll(
  query: Scope,
  tried: Tried,
  tally: Tally,
  { clock, items, time }: LabBounds & { readonly clock: Clock },
): Promise<LabEnd | undefined> {
  const portion = createAdaptiveBatchSize(clock, ITEMS);
  const end = clock.monotonic() + time;
  let left = items;
  for (const finished of [false, true]) {
    for (let after: ItemKey | undefined = ''; after !== undefined; ) {
      const most = Math.min(portion.size(), left);
      // One key more shows whether there are others.
      const keys = await itemsAfter(query, after, most + 1, finished);
      if (keys.length === 0) break;
      if (left === 0) return 'items';
      const some = keys.slice(0, most);
      await portion.work(some.length, () => tryItems(query, some, tried, finished, tally));
      left -= some.length;
      after = keys.length > most ? some.at(-1) : undefined;
      await yieldForRequests();
      if (after !== undefined && clock.monotonic() >= end) return 'time';
    }
  }
  return undefined;
}

interface Tried extends TriedConfig, EvaluationContext {
  /** Whether more than the rules for links differs for items of this kind. */
  readonly isOther: Readonly<Record<Item['kind'], boolean>>;
}

/** Compares the parts of the configuration that, besides the mentions, decide on the writes of an item. */
function partsThatDiffer(one: WorkspaceConfig, other: WorkspaceConfig): Tried['isOther'] {
  const parts = ({ users, rules, connections, workspace }: WorkspaceConfig) =>
    JSON.stringify([
      users,
      rules.documents,
      rules.workflow,
      workspace.statuses,
      connections.map(({ name, mirror }) => [name, mirror]),
    ]);
  const differs = parts(one) !== parts(other);
  const triage = JSON.stringify(one.rules.triage) !== JSON.stringify(other.rules.triage);
  return { pull_request: differs, work_item: differs || triage };
}

async function tryItems(
  query: Scope,
  keys: readonly ItemKey[],
  tried: Tried,
  finished: boolean,
  tally: Tally,
): Promise<void> {
  const trial = beginDryRun(query);
  const evaluations = new EvaluationQueue(trial.scope, tried);
  const others: Evaluation[] = [];
  for (const row of await findItems(trial.scope, keys)) {
    const connection = tried.sources.get(row.connection);
    tally.count(row.connection, finished, connection !== undefined);
    if (!connection) continue;
    if (tried.isOther[row.kind]) evaluations.add(row.key);
    else others.push({ ...tried, query: trial.scope, item: readFields(row).item, connection, cause: NO_CAUSE });
  }
  for (const { item } of await withOtherLinks(trial.scope, others)) evaluations.add(item.key);
  await evaluations.evaluate(new Map());
  await tally.take(trial, finished);
}

const NO_CAUSE = { since: 0, waiting: [] };

/** Most items have the same mentions by the new rules, or none that exist: this check costs a fraction of an evaluation. */
async function withOtherLinks(query: Scope, evaluations: readonly Evaluation[]): Promise<Evaluation[]> {
  const mentions = evaluations.map((evaluation) => {
    return [evaluation.item.key, mentionsToStore(evaluation)] as const;
  });
  const others = new Set(await itemsMentioningOther(query, new Map(mentions)));
  const differing = evaluations.filter(({ item }) => others.has(item.key));
  const isOther = await Promise.all(differing.map(wantsOtherLinks));
  return differing.filter((_, index) => isOther[index]);
}

async function wantsOtherLinks(evaluation: Evaluation): Promise<boolean> {
  const { query, item } = evaluation;
  const resolved = await resolveReadOnly(evaluation);
  if (item.kind === 'work_item' || resolved.some(({ outcome }) => outcome === 'document')) return true;
  const links = (await linksOfItem(query, item.key)).filter(({ desired }) => desired !== null);
  const desired = desiredLinks(resolved);
  return desired.size !== links.length || links.some(({ task_id }) => !desired.has(task_id as string));
}

type Counts = Record<LabSample['change'], number>;

class Tally {
  readonly items = { open: 0, finished: 0 };
  readonly #query: OpenWorkspace['store']['query'];
  readonly #limit: number;
  readonly #isHistory: boolean;
  readonly #counts = new Map<EffectOfRules, Counts>();
  readonly #missed = new Map<string, number>();
  readonly #samples: LabSample[] = [];
  /** The counted changes. An item may be evaluated again because of another one, and each change counts once. */
  readonly #seen = new Set<string>();
  #requests = 0;

  /** @param isHistory statuses of the past stay as they are: their changes are reported and not made */
  constructor(query: OpenWorkspace['store']['query'], limit: number, isHistory: boolean) {
    this.#isHistory = isHistory;
    this.#query = query;
    this.#limit = limit;
  }

  /** @param isTried whether the configuration has the connection of the item */
  count(connection: string, finished: boolean, isTried: boolean): void {
    this.items[finished ? 'finished' : 'open']++;
    if (!isTried) this.#missed.set(connection, (this.#missed.get(connection) ?? 0) + 1);
  }

  async take(trial: DryRun, finished: boolean): Promise<void> {
    const entities = new Map(
      trial.changed('entities').map(({ before, after }) => [(after ?? before)?.entity, after ?? before]),
    );
    for (const { before, after } of trial.changed('outbox')) {
      const row = (after ?? before) as OutboxRow;
      const effect = effectOf(row);
      if (effect === undefined || !isNews(before, after) || this.#seen.has(row.entity)) continue;
      this.#seen.add(row.entity);
      const isLater = effect === 'update-task' ? this.#isHistory : finished;
      const change = after === null ? 'dropped' : isLater ? 'later' : 'added';
      if (change === 'added') this.#requests++;
      const counts = this.#countsOf(effect);
      if (counts[change]++ >= this.#limit) continue;
      // The desired record is stored even while records are off, so the trial may change only the outbox.
      const entity = entities.get(row.entity) ?? (await findEntity(this.#query, row.entity));
      this.#samples.push(await this.#sample({ effect, change }, row, entity));
    }
  }

  #countsOf(effect: EffectOfRules): Counts {
    const counts = this.#counts.get(effect) ?? { added: 0, dropped: 0, later: 0 };
    this.#counts.set(effect, counts);
    return counts;
  }

  async #sample(
    what: Pick<LabSample, 'effect' | 'change'>,
    row: OutboxRow,
    entity: EntityRow | undefined,
  ): Promise<LabSample> {
    const item = entity?.item_key ? await this.#item(entity.item_key) : undefined;
    const taskId = entity?.task_id ?? taskOfLinkRead(row.entity) ?? null;
    const task = taskId === null ? null : await taskNameOf(this.#query, taskId);
    const desired = json<{ readonly reason?: LinkReason } & TaskUpdate>(entity?.desired ?? null);
    const reason = desired?.reason ?? null;
    const sets = desired && what.effect === 'update-task' ? describeUpdate(desired) : null;
    return {
      ...what,
      item: item?.key ?? null,
      title: item?.title ?? null,
      url: item?.url ?? null,
      task,
      reason,
      sets,
    };
  }

  async #item(key: ItemKey): Promise<Item | undefined> {
    const row = await findItem(this.#query, key);
    return row && readFields(row).item;
  }

  async report({ throttle, store }: OpenWorkspace): Promise<Omit<LabReport, 'inUse' | 'ended'>> {
    const { reads, writes } = await countWaiting(store.query);
    const dropped = [...this.#counts.values()].reduce((sum, counts) => sum + counts.dropped, 0);
    return {
      items: this.items,
      without: [...this.#missed].map(([connection, items]) => ({ connection, items })),
      effects: EFFECTS_OF_RULES.flatMap((effect) => {
        const counts = this.#counts.get(effect);
        return counts ? [{ effect, ...counts }] : [];
      }),
      requests: this.#requests,
      drainedAt: throttle.drainedAt(Math.max(0, reads + writes + this.#requests - dropped)),
      samples: this.#samples,
    };
  }
}

/** Returns undefined for a read that no rule causes. */
function effectOf({ kind, effect, entity }: OutboxRow): EffectOfRules | undefined {
  if (kind === 'link') return effect === 'removal' ? 'remove-link' : 'add-link';
  if (kind === 'pull_request') return 'record';
  if (kind === 'task') return 'create-task';
  if (kind === 'document') return 'attach-document';
  if (kind === 'task_update') return 'update-task';
  return taskOfLinkRead(entity) !== undefined ? 'remove-link' : undefined;
}

/** Whether no pending change has the same effect already. */
function isNews(before: OutboxRow | undefined, after: OutboxRow | null): boolean {
  return before === undefined || after === null || before.effect !== after.effect;
}

export const labOperations = {
  lab: operation({
    body: z.strictObject({ config: z.string().max(524_288), limit: countSchema }),
    run: (workspace, body, clock) => tryRules(workspace, body, clock),
    // The last batch may begin just before the limit.
    timeoutMs: ANSWER_MS + 2 * BOUNDS.time,
  }),
};
