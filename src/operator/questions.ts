import type { Clock } from '../lib/clock.ts';
import { type HeldClass, heldChanges, releaseHeld } from '../store/held-changes.ts';
import { quarantined, retryQuarantined } from '../store/inbox.ts';
import { backfillProgress, endBackfill, startBackfill } from './backfill.ts';
import { hookStates, installHooks, LONGEST_INSTALL, LONGEST_LOOK } from './hooks.ts';
import { explainLinks, linkAdded, linkRemoved, linkTarget, linkToRemove } from './links.ts';
import type { OpenWorkspace } from './open-workspace.ts';
import { applyPlan, showPlan } from './plan.ts';
import { describeQuota } from './quota.ts';
import { rebindNames } from './rebind.ts';
import { startSweep, sweepProgress } from './sweep.ts';

/**
 * What a command may ask of one workspace: the daemon answers where one runs, else the command opens the data folder and
 * answers itself. Questions and answers are plain JSON.
 */
const QUESTIONS = {
  held: ({ store }: OpenWorkspace, { samples }: { samples: number }) => heldChanges(store.query, samples),

  async release(
    { store, wakeOutbox }: OpenWorkspace,
    wish: { readonly classes?: readonly HeldClass[]; readonly entities?: readonly string[] },
  ) {
    const released = await releaseHeld(store, wish);
    wakeOutbox();
    return { released };
  },

  quarantine: ({ store }: OpenWorkspace, { limit }: { limit: number }) => quarantined(store.query, limit),

  async retry({ store, wakeReconcile }: OpenWorkspace, { ids }: { readonly ids?: readonly number[] }) {
    const retried = await retryQuarantined(store, ids ?? 'all');
    wakeReconcile();
    return { retried };
  },

  plan: showPlan,

  apply: (partition: OpenWorkspace, { id }: { id: string }) => applyPlan(partition, id, false),

  backfill: startBackfill,

  'backfill-progress': (partition: OpenWorkspace, { connection }: { connection: string }, clock: Clock) =>
    backfillProgress(partition, connection, clock).then((progress) => ({ progress })),

  'backfill-stop': (partition: OpenWorkspace, { connection }: { connection: string }) =>
    endBackfill(partition, connection).then((stopped) => ({ stopped })),

  hooks: hookStates,

  'hooks-install': installHooks,

  rebind: rebindNames,

  explain: explainLinks,

  'link-target': linkTarget,

  'link-added': linkAdded,

  'link-to-remove': linkToRemove,

  'link-removed': linkRemoved,

  sweep: startSweep,

  'sweep-progress': (partition: OpenWorkspace, _asked: object, clock: Clock) => sweepProgress(partition, clock),

  quota: (partition: OpenWorkspace, _asked: object, clock: Clock) => describeQuota(partition, clock),
};

type Questions = typeof QUESTIONS;
export type Question = keyof Questions;
export type Asked<Name extends Question> = Parameters<Questions[Name]>[1];
export type Answered<Name extends Question> = Awaited<ReturnType<Questions[Name]>>;

/** Answers from the database come soon; questions to vendors take as long as the vendors do. */
const LONGEST_ANSWERS: { readonly [Name in Question]?: number } = {
  hooks: LONGEST_LOOK,
  'hooks-install': LONGEST_INSTALL,
};

/** How long the answer may take, milliseconds. */
export function longestAnswer(question: Question): number {
  return (LONGEST_ANSWERS[question] ?? 0) + 30_000;
}

export function isQuestion(name: string): name is Question {
  return Object.hasOwn(QUESTIONS, name);
}

export function answerQuestion(
  name: Question,
  partition: OpenWorkspace,
  asked: unknown,
  clock: Clock,
): Promise<unknown> {
  const answer = QUESTIONS[name] as (...given: unknown[]) => Promise<unknown>;
  return answer(partition, asked, clock);
}
