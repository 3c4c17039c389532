import { serverStatus, type TaskStatuses } from '../../model/task-status.ts';
import { contestsInDay, MAX_CONTESTED_OF_WORKSPACE } from '../../model/written-status.ts';
import { afterTrialRefused, isOff, readServerFact, type Trial, writeServerFact } from '../workspace/server-facts.ts';
import type { Scope } from '../workspace-scope.ts';

/** The body of an update: all fields of the task, or the changed ones only. */
export type UpdateForm = 'whole' | 'fields';

/**
 * A stored value: the server's behaviour when tasks are updated. Earlier versions also stored the conclusions from a single
 * refusal: the value `suspected`, the key `unconditional`, and statuses without a trial. These are ignored.
 */
export interface TaskUpdateFacts {
  /** Updates in the form `fields` are refused where the whole task is accepted, or clear other fields. */
  readonly fieldsOff?: 'certain' | 'suspected';
  /** An update with the fields that only the server writes is refused, and the same one without them is accepted. */
  readonly readOnly?: 'certain' | 'suspected';
  /** Whether the server accepts updates with `If-Match`. It counts as a refusal if the tag is that of the read just before. */
  readonly ifMatch?: Trial;
  /** Updates in each form clear other fields: none is sent. Code and message. */
  readonly off?: string;
  /** Fields whose update was compared with the task before it, by form: it changed no other field. */
  readonly verified?: Readonly<Partial<Record<UpdateForm, readonly string[]>>>;
  /** Statuses that the server accepted, refused or replaced, by its words. */
  readonly statuses?: Readonly<Record<string, Trial>>;
  /** The times in the last day at which others reverted a status that worksync had just written; epoch milliseconds. */
  readonly contested?: readonly number[];
}

export async function readTaskUpdateFacts(query: Scope): Promise<TaskUpdateFacts> {
  return (await readServerFact<TaskUpdateFacts>(query, 'taskUpdate')) ?? {};
}

/** Writes only if the facts changed. */
async function changeFacts(query: Scope, change: (facts: TaskUpdateFacts) => TaskUpdateFacts): Promise<void> {
  const before = await readTaskUpdateFacts(query);
  const after = change(before);
  if (JSON.stringify(after) !== JSON.stringify(before)) await writeServerFact(query, 'taskUpdate', after);
}

/** Returns whether others reverted so many statuses in the last day that worksync changes none in this workspace. */
export function areStatusesContested({ contested = [] }: TaskUpdateFacts, now: number): boolean {
  return contestsInDay(contested, now).length >= MAX_CONTESTED_OF_WORKSPACE;
}

/**
 * Returns why this status is not sent to any task, as code and message; undefined if it may be sent. The message names no
 * task, because it is stored with changes of other tasks than those that refused the status.
 */
export function refusalOfStatus(
  facts: TaskUpdateFacts,
  statuses: TaskStatuses,
  status: string | undefined,
  now: number,
): string | undefined {
  if (status === undefined) return undefined;
  if (areStatusesContested(facts, now))
    return `workflow_contested: others changed ${MAX_CONTESTED_OF_WORKSPACE} statuses back in a day`;
  const word = serverStatus(statuses, status);
  if (!isOff(trialOf(facts, word), now)) return undefined;
  return `status_unknown: the workspace refused the status ${word} for three tasks, and accepted it for none`;
}

function trialOf({ statuses = {} }: TaskUpdateFacts, word: string): Trial {
  return (Object.hasOwn(statuses, word) ? statuses[word] : undefined) ?? {};
}

/** Records the time at which others reverted a status. */
export async function noteContest(query: Scope, at: number, now: number): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, contested: contestsInDay([...(facts.contested ?? []), at], now) }));
}

/** Removes contests that were recorded by mistake. */
export async function forgetContests(query: Scope, times: readonly number[]): Promise<void> {
  await changeFacts(query, (facts) => {
    if (facts.contested === undefined) return facts;
    return { ...facts, contested: facts.contested.filter((at) => !times.includes(at)) };
  });
}

/** Records that the server refused a status for a task, or replaced it. @param word the server's word for the status */
export async function noteStatusRefused(query: Scope, word: string, taskId: string, now: number): Promise<void> {
  await changeFacts(query, (facts) => ({
    ...facts,
    statuses: { ...facts.statuses, [word]: afterTrialRefused(trialOf(facts, word), taskId, now) },
  }));
}

/** Records that the server refused the tag of the read just before, for a second time in a row for this task. */
export async function noteIfMatchRefused(query: Scope, taskId: string, now: number): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, ifMatch: afterTrialRefused(facts.ifMatch ?? {}, taskId, now) }));
}

/** An update in the form `fields` cleared other fields. */
export async function noteFieldsCleared(query: Scope): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, fieldsOff: 'certain' }));
}

/** Records that an update is accepted only without the fields that the server writes. */
export async function noteReadOnlyRefused(query: Scope): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, readOnly: 'certain' }));
}

/** Updates clear other fields whatever their form: switches all of them off for this address. */
export async function switchUpdatesOff(query: Scope, error: string): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, off: error }));
}

/** An accepted update, and what it shows. */
export interface AcceptedUpdate {
  readonly form: UpdateForm;
  /** The forms in which this update was refused before. */
  readonly refused: Pick<TaskUpdateFacts, 'fieldsOff' | 'readOnly'>;
  /** Names of the changed fields, if the answer was compared with the task before. */
  readonly compared: readonly string[];
  /** The status that was set, in the server's word. */
  readonly word?: string | undefined;
  /** It was sent with `If-Match`. */
  readonly isConditional: boolean;
}

export async function noteUpdateAccepted(
  query: Scope,
  { form, refused, compared, word, isConditional }: AcceptedUpdate,
): Promise<void> {
  await changeFacts(query, (facts) => {
    const { verified = {}, statuses } = facts;
    const names = [...new Set([...(verified[form] ?? []), ...compared])];
    return {
      ...facts,
      ...refused,
      ...(isConditional && { ifMatch: { passed: true } }),
      ...(names.length > 0 && { verified: { ...verified, [form]: names } }),
      ...(word !== undefined && { statuses: { ...statuses, [word]: { passed: true } } }),
    };
  });
}
