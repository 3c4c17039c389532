import { type StatusWords, serverStatus } from '../model/task-status.ts';
import { contestsInDay, MAX_CONTESTED_OF_WORKSPACE } from '../model/written-status.ts';
import { readServerFact, writeServerFact } from './server-facts.ts';
import type { Scope } from './workspace-scope.ts';

/** The body of an update: all fields of the task, or the changed ones only. */
export type UpdateForm = 'whole' | 'fields';

/** Whether a refusal suggests this, or a later success has confirmed it. */
type Evidence = 'suspected' | 'certain';

/** A stored value: the server's behaviour when tasks are updated. */
export interface TaskUpdateFacts {
  /** Updates in the form `fields` are refused, or clear other fields. */
  readonly fieldsOff?: Evidence;
  /** An update with the fields that only the server writes is refused. */
  readonly readOnly?: Evidence;
  /** `If-Match` with the tag of the read just before is refused: it is not sent. */
  readonly unconditional?: true;
  /** Updates in each form clear other fields: none is sent. Code and message. */
  readonly off?: string;
  /** Fields whose update was compared with the task before it, by form: it changed no other field. */
  readonly verified?: Readonly<Partial<Record<UpdateForm, readonly string[]>>>;
  /** Statuses that the server refused or replaced, by our words. */
  readonly statuses?: Readonly<Record<string, { readonly word: string; readonly error: string }>>;
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
 * Returns why this status is not sent, as code and message; undefined if it may be sent. A status whose word has changed
 * in the configuration is sent again.
 */
export function refusalOfStatus(
  facts: TaskUpdateFacts,
  words: StatusWords,
  status: string | undefined,
  now: number,
): string | undefined {
  if (status === undefined) return undefined;
  if (areStatusesContested(facts, now))
    return `workflow_contested: others changed ${MAX_CONTESTED_OF_WORKSPACE} statuses back in a day`;
  const { statuses = {} } = facts;
  const refused = Object.hasOwn(statuses, status) ? statuses[status] : undefined;
  return refused?.word === serverStatus(words, status) ? refused.error : undefined;
}

/** Records the time at which others reverted a status. */
export async function noteContest(query: Scope, at: number, now: number): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, contested: contestsInDay([...(facts.contested ?? []), at], now) }));
}

/** Switches a status off. Earlier suspicions are dropped, because the status explains the refusals. */
export async function noteStatusRefused(
  query: Scope,
  status: string,
  refused: { readonly word: string; readonly error: string },
): Promise<void> {
  await changeFacts(query, ({ fieldsOff, readOnly, ...facts }) => ({
    ...facts,
    ...(fieldsOff === 'certain' && { fieldsOff }),
    ...(readOnly === 'certain' && { readOnly }),
    statuses: { ...facts.statuses, [status]: refused },
  }));
}

/** Suspects the form of a refused update. The next one is sent in another form, and its success confirms the suspicion. */
export async function suspectForm(query: Scope, suspicion: 'fieldsOff' | 'readOnly'): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, [suspicion]: facts[suspicion] ?? 'suspected' }));
}

/** An update in the form `fields` cleared other fields. */
export async function noteFieldsCleared(query: Scope): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, fieldsOff: 'certain' }));
}

/** Updates clear other fields whatever their form: switches all of them off for this address. */
export async function switchUpdatesOff(query: Scope, error: string): Promise<void> {
  await changeFacts(query, (facts) => ({ ...facts, off: error }));
}

/** An accepted update, and what it shows. */
export interface AcceptedUpdate {
  readonly form: UpdateForm;
  /** Names of the changed fields, if the answer was compared with the task before. */
  readonly compared: readonly string[];
  /** The status that was set, in our words. */
  readonly status?: string;
  /** Earlier attempts failed because of `If-Match`, and this one was sent without it. */
  readonly isUnconditional?: boolean;
}

export async function noteUpdateAccepted(
  query: Scope,
  { form, compared, status, isUnconditional }: AcceptedUpdate,
): Promise<void> {
  await changeFacts(query, ({ statuses, ...facts }) => {
    const { fieldsOff, readOnly, verified = {} } = facts;
    const others = Object.entries(statuses ?? {}).filter(([name]) => name !== status);
    const names = [...new Set([...(verified[form] ?? []), ...compared])];
    return {
      ...facts,
      ...(form === 'whole' && fieldsOff && { fieldsOff: 'certain' }),
      ...(form === 'whole' && readOnly && { readOnly: 'certain' }),
      ...(isUnconditional && { unconditional: true }),
      ...(names.length > 0 && { verified: { ...verified, [form]: names } }),
      ...(others.length > 0 && { statuses: Object.fromEntries(others) }),
    };
  });
}
