import type { HeldClass } from '../model/change.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { AuditQuery } from '../store/access/audit-rows.ts';
import { releaseHeld } from '../store/changes/held-changes.ts';
import { dismissQuarantined, quarantinedDeliveries, retryQuarantined } from '../store/deliveries/inbox.ts';
import { type Actor, audited, auditLog, NOBODY } from './audit.ts';
import { backfillProgress, endBackfill, pauseBackfill, resumeBackfill, startBackfill } from './backfill.ts';
import { listDeliveries, replay } from './deliveries.ts';
import { showDelivery } from './delivery-timeline.ts';
import { hookStates, installHooks, LONGEST_INSTALL, LONGEST_LOOK } from './hooks.ts';
import { showItems } from './item-timeline.ts';
import { LONGEST_LAB, tryRules } from './lab.ts';
import {
  explainLinks,
  linkAdded,
  linkRemoved,
  linkTarget,
  linkToRemove,
  releaseField,
  releaseStatus,
  unfinishedTasks,
} from './links.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import { applyPlan, showPlan } from './plan.ts';
import { postpone, undo } from './postpone.ts';
import type { PostponedAction, PostponeWish } from './postponed.ts';
import { describeQuota } from './quota.ts';
import { quotaByCaller } from './quota-by-caller.ts';
import { rebindNames } from './rebind.ts';
import { refusedOf } from './refused.ts';
import { scopeNames } from './sample-delivery.ts';
import { startSweep, sweepProgress } from './sweep.ts';
import { undoStatus } from './undo-status.ts';
import { dropChanges, heldNamed, listChanges, namedHeldChanges, retryChanges, showChanges } from './waiting-changes.ts';

/**
 * The requests about one workspace that a command may send. A running daemon answers them; without one, the command opens the
 * data folder and answers them itself. Arguments and answers are plain JSON.
 */
const QUESTIONS = {
  held: namedHeldChanges,

  async release(
    { store, wakeOutbox, rules }: OpenWorkspace,
    wish: { readonly classes?: readonly HeldClass[]; readonly entities?: readonly string[] },
  ) {
    const entities = await heldNamed(store.query, wish.entities ?? [], rules);
    const released = await releaseHeld(store, { ...wish, entities });
    wakeOutbox();
    return { released };
  },

  changes: listChanges,

  'changes-show': showChanges,

  'changes-retry': retryChanges,

  'changes-drop': dropChanges,

  quarantine: ({ store }: OpenWorkspace, { limit }: { limit: number }) => quarantinedDeliveries(store.query, limit),

  async retry({ store, wakeReconcile }: OpenWorkspace, { ids }: { readonly ids?: readonly number[] }) {
    const retried = await retryQuarantined(store, ids ?? 'all');
    wakeReconcile();
    return { retried };
  },

  async dismiss({ store }: OpenWorkspace, { ids }: { readonly ids?: readonly number[] }, clock: Clock) {
    return { dismissed: await dismissQuarantined(store, ids ?? 'all', clock.now()) };
  },

  plan: showPlan,

  lab: (workspace: OpenWorkspace, asked: Parameters<typeof tryRules>[1], clock: Clock) =>
    tryRules(workspace, asked, clock),

  apply: (partition: OpenWorkspace, { id }: { id: string }) => applyPlan(partition, id, false),

  backfill: startBackfill,

  'backfill-progress': (partition: OpenWorkspace, { connection }: { connection: string }, clock: Clock) =>
    backfillProgress(partition, connection, clock).then((progress) => ({ progress })),

  'backfill-pause': (partition: OpenWorkspace, { connection }: { connection: string }) =>
    pauseBackfill(partition, connection).then((paused) => ({ paused })),

  'backfill-resume': (partition: OpenWorkspace, { connection }: { connection: string }) =>
    resumeBackfill(partition, connection).then((resumed) => ({ resumed })),

  'backfill-stop': (partition: OpenWorkspace, { connection }: { connection: string }) =>
    endBackfill(partition, connection).then((stopped) => ({ stopped })),

  hooks: hookStates,

  'hooks-install': installHooks,

  rebind: rebindNames,

  'scope-names': scopeNames,

  deliveries: listDeliveries,

  delivery: showDelivery,

  replay,

  items: showItems,

  explain: explainLinks,

  'link-target': linkTarget,

  'link-added': linkAdded,

  'link-to-remove': linkToRemove,

  'link-removed': linkRemoved,

  'release-status': releaseStatus,

  'release-field': releaseField,

  unfinished: unfinishedTasks,

  'status-undo': undoStatus,

  sweep: startSweep,

  'sweep-progress': (partition: OpenWorkspace, _asked: object, clock: Clock) => sweepProgress(partition, clock),

  quota: (partition: OpenWorkspace, _asked: object, clock: Clock) => describeQuota(partition, clock),

  refused: refusedOf,

  postpone: (partition: OpenWorkspace, wish: PostponeWish, clock: Clock, actor: Actor): Promise<PostponedAction> =>
    postpone(partition, wish, { clock, actor, subject: subjectOf(wish.question, wish.asked) }, (auditRow) =>
      runAdminOperation(wish.question, partition, wish.asked, clock, actor, auditRow),
    ),

  postponed: async ({ postponed }: OpenWorkspace, _asked: object) => ({ actions: postponed.list() }),

  undo: (partition: OpenWorkspace, wish: { readonly id: string }, clock: Clock, actor: Actor) =>
    undo(partition, wish, { clock, actor }),

  audit: ({ store, name }: OpenWorkspace, wish: Omit<AuditQuery, 'workspaces'>, clock: Clock) =>
    auditLog(store.query.whole, { ...wish, workspaces: [name] }, clock.now()),

  'quota-by-caller': (partition: OpenWorkspace, _asked: object, clock: Clock) => quotaByCaller(partition, clock),
};

type AdminOperations = typeof QUESTIONS;
export type AdminOperation = keyof AdminOperations;
export type Asked<Name extends AdminOperation> = Parameters<AdminOperations[Name]>[1];
export type Answered<Name extends AdminOperation> = Awaited<ReturnType<AdminOperations[Name]>>;

/** Describes an operation that changes something, for the audit. */
interface Change<Name extends AdminOperation> {
  /** Whether it only returns a preview. */
  isTrial?(asked: Asked<Name>): boolean;
  /** The things that it changes; null: everything that it can. */
  subject(asked: Asked<Name>): string | null;
  /** How many things it changed; null where that is unknown. */
  count(answered: Answered<Name>): number | null;
}

const connectionOf = ({ connection }: { readonly connection: string }) => connection;
const taskOf = ({ taskId }: { readonly taskId: string }) => taskId;
const targetsOf = ({ targets }: { readonly targets: readonly string[] }) => targets.join(', ');
const unknown = () => null;
const everything = () => null;

/** The audit description of each operation; null: the operation changes nothing. */
const CHANGES: { readonly [Name in AdminOperation]: Change<Name> | null } = {
  held: null,
  release: {
    subject: ({ classes = [], entities = [] }) => [...classes, ...entities].join(', ') || null,
    count: ({ released }) => released,
  },
  changes: null,
  'changes-show': null,
  'changes-retry': { subject: targetsOf, count: ({ retried }) => retried.length },
  'changes-drop': { subject: targetsOf, count: ({ dropped }) => dropped.length },
  quarantine: null,
  retry: { subject: ({ ids }) => ids?.join(', ') ?? null, count: ({ retried }) => retried },
  dismiss: { subject: ({ ids }) => ids?.join(', ') ?? null, count: ({ dismissed }) => dismissed },
  plan: null,
  lab: null,
  apply: { subject: ({ id }) => id, count: unknown },
  backfill: { subject: connectionOf, count: unknown },
  'backfill-progress': null,
  'backfill-pause': { subject: connectionOf, count: unknown },
  'backfill-resume': { subject: connectionOf, count: unknown },
  'backfill-stop': { subject: connectionOf, count: unknown },
  hooks: null,
  'hooks-install': { subject: connectionOf, count: unknown },
  rebind: { subject: connectionOf, count: unknown },
  'scope-names': null,
  deliveries: null,
  delivery: null,
  replay: {
    isTrial: ({ preview }) => preview,
    subject: ({ ids = [], about, connection, state, source }) =>
      [...ids, about, connection, state, source].filter(Boolean).join(', ') || null,
    count: ({ replayed }) => replayed,
  },
  items: null,
  explain: null,
  'link-target': null,
  'link-added': { subject: taskOf, count: () => 1 },
  'link-to-remove': null,
  'link-removed': { subject: ({ taskId, link }) => `${taskId} ${link}`, count: () => 1 },
  'release-status': { subject: ({ task }) => task, count: ({ released }) => Number(released) },
  'release-field': { subject: ({ task, field }) => `${task} ${field}`, count: ({ released }) => Number(released) },
  'status-undo': { subject: ({ task }) => task, count: () => 1 },
  unfinished: null,
  sweep: { subject: everything, count: unknown },
  'sweep-progress': null,
  quota: null,
  refused: null,
  // These operations write their own audit rows.
  postpone: null,
  postponed: null,
  undo: null,
  'quota-by-caller': null,
  audit: null,
};

/** Only operations that call vendors take longer than the default. */
const LONGEST_ANSWERS: { readonly [Name in AdminOperation]?: number } = {
  hooks: LONGEST_LOOK,
  'hooks-install': LONGEST_INSTALL,
  lab: LONGEST_LAB,
};

/** The longest time that an answer may take, milliseconds. */
export function longestAnswer(question: AdminOperation): number {
  return (LONGEST_ANSWERS[question] ?? 0) + 30_000;
}

export function isAdminOperation(name: string): name is AdminOperation {
  return Object.hasOwn(QUESTIONS, name);
}

function subjectOf(name: AdminOperation, asked: unknown): string | null {
  return CHANGES[name]?.subject(asked as never) ?? null;
}

/** Runs an operation, and records it in the audit if it changes something. */
export async function runAdminOperation(
  name: AdminOperation,
  partition: OpenWorkspace,
  asked: unknown,
  clock: Clock,
  actor: Actor = NOBODY,
  auditRow?: number,
): Promise<unknown> {
  const answer = QUESTIONS[name] as (...given: unknown[]) => Promise<unknown>;
  const change = CHANGES[name];
  if (change === null || change.isTrial?.(asked as never)) return answer(partition, asked, clock, actor);
  const act = { actor, action: name, workspace: partition.name, subject: subjectOf(name, asked) };
  const books = { query: partition.store.query.whole, clock, row: auditRow };
  return audited(
    books,
    act,
    () => answer(partition, asked, clock),
    (answered) => ({ count: change.count(answered as never) }),
  );
}
