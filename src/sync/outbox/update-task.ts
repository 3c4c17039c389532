// Design: src/decisions/task-updates.md

import { entity } from '../../model/change.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { TaskUpdate } from '../../model/task.ts';
import { serverStatus, type TaskStatuses } from '../../model/task-status.ts';
import { afterAnswer, observeFields, withoutTheirs } from '../../model/written-task.ts';
import { findChanges, updateChange } from '../../store/changes/outbox-rows.ts';
import { addRequest } from '../../store/changes/requests.ts';
import { retryUntilCommitted } from '../../store/retry-until-committed.ts';
import {
  type AcceptedUpdate,
  cachedStatus,
  noteFieldsCleared,
  noteReadOnlyRefused,
  noteUpdateAccepted,
  readTaskUpdateFacts,
  switchUpdatesOff,
  type TaskUpdateFacts,
} from '../../store/tasks/stored-tasks.ts';
import { noteRouteAnswered } from '../../store/workspace/server-capabilities.ts';
import { isOff } from '../../store/workspace/server-facts.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ApiAnswer } from '../../workspace-api/typed-client.ts';
import type { Slot } from '../quota/slot.ts';
import type { WorkspaceContext } from '../workspace-context.ts';
import { errorText, isContentRefused, isUpdateRefused } from './refusals.ts';
import { historyRow, type PreparedRequest } from './request.ts';
import { pendingAgain } from './settle.ts';
import {
  arrivedOf,
  type BodyForm,
  changedFields,
  clearedFields,
  formsOf,
  isBasedOn,
  needsNoTask,
  strongTag,
  type TaskFields,
  updateBody,
  updateFormOf,
} from './task-update-body.ts';

/** Commits the success of a request together with `work`, and settles its change. */
type Answered = (
  prepared: PreparedRequest,
  slot: Slot,
  answer: ApiAnswer<unknown>,
  work?: (transaction: Scope) => Promise<void>,
) => Promise<void>;

/** Commits the failure of a request, and settles its change. */
type Failed = (prepared: PreparedRequest, slot: Slot, error: SyncError) => Promise<void>;

/** A task whose status is cached for less than this may be updated without a read before, milliseconds. */
const CACHED_FOR = 60_000;
/** A read that is older than this is repeated before the update, milliseconds. */
const READ_VALID_FOR = 5_000;

interface Turn {
  readonly prepared: PreparedRequest;
  readonly update: TaskUpdate;
  readonly taskId: string;
  readonly facts: TaskUpdateFacts;
  readonly form: BodyForm;
  /** The forms to try after a refusal. */
  readonly otherForms: readonly BodyForm[];
  readonly traceparent: string | undefined;
}

/** The task before the update. */
interface TaskBefore {
  readonly task: TaskFields;
  readonly etag: string | undefined;
}

interface Sent {
  readonly changed: TaskFields;
  readonly before: TaskBefore;
  readonly answer: ApiAnswer<unknown>;
  readonly accepted: AcceptedUpdate;
}

/**
 * One turn: reads the task, compares it with the state on which the decision was based, and sends the update. The read is omitted
 * if the cached status is recent and certain, and the update clears no other field (`#mayOmitRead`). The claim has recorded the
 * first slot. Before each further request one transaction completes the slot of the last one and records the next (`#passOn`);
 * a last one settles the change (`#answered`, `#failed`) or makes it pending again (`#requeue`).
 *
 * The second slot is acquired before the read, so that the update follows at once. A task that has the wanted status is
 * settled without an update. A task with another status is not updated: the read becomes an answer, and reconcile
 * decides again.
 */
export class TaskUpdater {
  readonly #context: WorkspaceContext;
  readonly #statuses: TaskStatuses;
  readonly #signal: AbortSignal;
  readonly #answered: Answered;
  readonly #failed: Failed;

  /** @param signal aborts when the outbox stops */
  constructor(context: WorkspaceContext, signal: AbortSignal, answered: Answered, failed: Failed) {
    this.#context = context;
    this.#statuses = context.config.workspace.statuses;
    this.#signal = signal;
    this.#answered = answered;
    this.#failed = failed;
  }

  /** Sends a claimed update and settles its change. The slot of the last request is completed; `slot` may be left to the caller. */
  async send(prepared: PreparedRequest, slot: Slot, traceparent: string | undefined): Promise<void> {
    const update = prepared.body as unknown as TaskUpdate;
    const taskId = prepared.taskId as string;
    const facts = await readTaskUpdateFacts(this.#context.store.query);
    const [form, ...otherForms] = formsOf(updateFormOf(this.#context.config), facts);
    const turn: Turn = { prepared, update, taskId, facts, form, otherForms, traceparent };
    if (await this.#mayOmitRead(turn)) return this.#write(turn, slot, changedFields(update, this.#statuses));
    const second = await this.#followingSlot(prepared);
    if (second === undefined) return this.#requeue(prepared, slot);
    await withSlot(second, () => this.#readAndWrite(turn, slot, second));
  }

  /**
   * Whether an update of these fields is known to clear no other, and the cached status is recent and certain: webhooks of the
   * workspace report edits, and no read waits that would show one.
   */
  async #mayOmitRead({ prepared, update, taskId, facts, form }: Turn): Promise<boolean> {
    if (form.form !== 'fields' || this.#context.config.workspace.webhook === undefined) return false;
    if (prepared.open || prepared.attempts > 0 || !needsNoTask(update)) return false;
    const verified = facts.verified?.fields ?? [];
    if (!Object.keys(changedFields(update, this.#statuses)).every((name) => verified.includes(name))) return false;
    const { query } = this.#context.store;
    const reads = await findChanges(query, [entity.readTask(taskId), entity.readTasks]);
    if (reads.length > 0) return false;
    const cached = await cachedStatus(query, taskId);
    const isRecent = cached !== undefined && cached.seenAt > this.#context.clock.now() - CACHED_FOR;
    return isRecent && cached.status === serverStatus(this.#statuses, update.from);
  }

  async #readAndWrite(turn: Turn, slot: Slot, second: Slot): Promise<void> {
    const { prepared, update } = turn;
    const reading: PreparedRequest = { ...prepared, action: 'read-task' };
    let read: ApiAnswer<TaskFields>;
    try {
      read = await this.#readTask(turn);
    } catch (error) {
      return this.#failed(reading, slot, asSyncError(error));
    }
    const task = fieldsOf(read);
    const observed = observeFields(update, task);
    const changed = changedFields(withoutTheirs(update, observed), this.#statuses, task);
    const status = String(read.body['status']);
    const isOutdated = !isBasedOn(update, this.#statuses, status);
    if (isOutdated || Object.keys(changed).length === 0) {
      second.release();
      const arrived = isOutdated ? arrivedOf(prepared.attempted, this.#statuses, status) : undefined;
      return this.#answered({ ...reading, observed, isOutdated, arrived }, slot, read);
    }
    const readAt = this.#context.clock.now();
    const noteRead = async (transaction: Scope) => {
      await noteRouteAnswered(transaction, 'getTask', readAt);
      await addRequest(transaction, historyRow(reading, { now: readAt, status: read.status, outcome: 'answered' }));
    };
    // Another request may have been refused meanwhile.
    const isPaused = this.#context.throttle.isPaused();
    if (isPaused) second.release();
    if (!isPaused && !(await this.#passOn(slot, second, noteRead, read.status))) return;
    this.#context.meter.count('workspace_requests_total', { route: 'read-task', status: String(read.status) });
    if (isPaused) return this.#requeue(prepared, slot, read.status, noteRead);
    if (this.#context.clock.now() - readAt > READ_VALID_FOR) return this.#requeue(prepared, second);
    await this.#write(
      { ...turn, prepared: { ...prepared, observed, sentAt: this.#context.clock.now() } },
      second,
      changed,
      {
        task,
        etag: strongTag(read.headers['etag']),
      },
    );
  }

  async #readTask({ taskId, traceparent }: Turn): Promise<ApiAnswer<TaskFields>> {
    const read = await this.#context.outboxClient.getTask({ taskId }, { traceparent });
    if (read.body.taskId === taskId) return read;
    throw new SyncError('answer_malformed', `the answer names the task ${read.body.taskId}`, { status: read.status });
  }

  async #write(turn: Turn, slot: Slot, changed: TaskFields, before?: TaskBefore): Promise<void> {
    const { facts, form } = turn;
    const word = typeof changed['status'] === 'string' ? changed['status'] : undefined;
    const ifMatch = isOff(facts.ifMatch, this.#context.clock.now()) ? undefined : before?.etag;
    const isConditional = ifMatch !== undefined;
    const sent = { hasRead: before !== undefined, isConditional, word };
    const prepared: PreparedRequest = { ...turn.prepared, update: sent };
    const body = updateBody(form, before?.task ?? {}, changed);
    let answer: ApiAnswer<unknown>;
    try {
      answer = await this.#sendBody(turn, body, ifMatch);
    } catch (thrown) {
      const error = asSyncError(thrown);
      const isRefused = turn.otherForms.length > 0 && isUpdateRefused(error, prepared);
      return isRefused ? this.#tryNextForm(turn, slot, error) : this.#failed(prepared, slot, error);
    }
    const answered = (answer.body as { readonly status?: string } | undefined)?.status;
    if (word !== undefined && answered !== undefined && answered !== word) {
      const message = `the workspace answered the status ${word} of the task ${turn.taskId} with ${answered}`;
      return this.#failed(prepared, slot, new SyncError('refused', message, { status: answer.status, own: true }));
    }
    const accepted = { form: form.form, refused: this.#refusedForms(turn), compared: [], word, isConditional };
    if (before === undefined) return this.#answered(prepared, slot, answer, (t) => this.#noteAccepted(t, accepted));
    await this.#compare({ ...turn, prepared }, slot, { changed, before, answer, accepted });
  }

  /** Reads the task again and sends the update in its next form, because a refusal does not show what is at fault. */
  async #tryNextForm(turn: Turn, slot: Slot, error: SyncError): Promise<void> {
    const [form, ...otherForms] = turn.otherForms as readonly [BodyForm, ...BodyForm[]];
    const { prepared } = turn;
    const { status = 0 } = error;
    const first = await this.#followingSlot(prepared);
    if (first === undefined) return this.#requeue(prepared, slot, status);
    await withSlot(first, async () => {
      const second = await this.#followingSlot(prepared);
      if (second === undefined) return this.#requeue(prepared, slot, status);
      const failure = { now: this.#context.clock.now(), status, outcome: 'again', error: errorText(error) } as const;
      const record = async (transaction: Scope) => void (await addRequest(transaction, historyRow(prepared, failure)));
      await withSlot(second, async () => {
        if (!(await this.#passOn(slot, first, record, status))) return;
        this.#context.meter.count('workspace_requests_total', { route: prepared.action, status: String(status) });
        await this.#readAndWrite({ ...turn, form, otherForms }, first, second);
      });
    });
  }

  /** Returns the forms that were refused earlier in this turn. */
  #refusedForms({ form, facts }: Turn): AcceptedUpdate['refused'] {
    const isFieldsRefused = form.form === 'whole' && updateFormOf(this.#context.config) === 'fields';
    const isWholeRefused = form.isStripped && facts.readOnly !== 'certain';
    return { ...(isFieldsRefused && { fieldsOff: 'certain' }), ...(isWholeRefused && { readOnly: 'certain' }) };
  }

  /** Sends an update. A success without a readable task has no body. */
  async #sendBody({ taskId, traceparent }: Turn, body: TaskFields, ifMatch?: string): Promise<ApiAnswer<unknown>> {
    try {
      return await this.#context.outboxClient.updateTask({ taskId, body: body as never, ifMatch }, { traceparent });
    } catch (thrown) {
      const { code, status = 0 } = asSyncError(thrown);
      if (code !== 'answer_malformed' || status < 200 || status > 299) throw thrown;
      return { status, headers: {}, body: undefined };
    }
  }

  /** Compares the task after the update with the one before. Restores fields that the update cleared, once. */
  async #compare(turn: Turn, slot: Slot, { changed, before, answer, accepted }: Sent): Promise<void> {
    const { form, update } = turn;
    const after = await this.#taskAfter(turn, slot, { changed, before, answer, accepted });
    const { observed } = turn.prepared;
    const shown = after.task ?? (answer.body === undefined ? {} : fieldsOf(answer as ApiAnswer<TaskFields>));
    const prepared = { ...turn.prepared, observed: observed && afterAnswer(observed, update, shown) };
    const cleared = after.task === undefined ? [] : clearedFields(before.task, after.task, changed);
    const finish = (transaction: Scope) =>
      this.#noteAccepted(transaction, { ...accepted, compared: after.task === undefined ? [] : Object.keys(changed) });
    if (cleared.length === 0) return this.#answered(prepared, after.slot, answer, finish);
    const error = `update_clears_fields: an update of ${Object.keys(changed).join(', ')} cleared ${cleared.join(', ')}`;
    this.#context.logger.error(
      { entity: prepared.entity, error },
      'an update of a task cleared fields that were not sent',
    );
    const next = form.form === 'fields' ? await this.#followingSlot(prepared) : undefined;
    if (next === undefined || !(await this.#passOn(after.slot, next, noteFieldsCleared, answer.status)))
      return this.#answered(prepared, after.slot, answer, (transaction) =>
        form.form === 'whole' ? switchUpdatesOff(transaction, error) : noteFieldsCleared(transaction),
      );
    await this.#restore({ ...turn, prepared }, next, { changed, before, error }, turn.facts.readOnly === 'certain');
  }

  /** Sends the whole task as it was before, with the changed fields; without the fields of the server if that is refused. */
  async #restore(
    turn: Turn,
    slot: Slot,
    lost: Pick<Sent, 'changed' | 'before'> & { readonly error: string },
    isStripped: boolean,
  ): Promise<void> {
    const { prepared } = turn;
    const { changed, before, error } = lost;
    try {
      const answer = await this.#sendBody(turn, updateBody({ form: 'whole', isStripped }, before.task, changed));
      const task = answer.body === undefined ? {} : fieldsOf(answer as ApiAnswer<TaskFields>);
      const cleared = clearedFields(before.task, task, changed);
      await this.#answered(prepared, slot, answer, async (transaction) => {
        if (isStripped) await noteReadOnlyRefused(transaction);
        if (cleared.some((name) => Object.hasOwn(task, name))) await switchUpdatesOff(transaction, error);
      });
    } catch (thrown) {
      const failure = asSyncError(thrown);
      const { status = 0 } = failure;
      const next = !isStripped && isContentRefused(status) ? await this.#followingSlot(prepared) : undefined;
      // The workspace has accepted the update itself, so this refusal does not concern the status.
      if (next === undefined) return this.#failed({ ...prepared, update: undefined }, slot, failure);
      if (await this.#passOn(slot, next, async () => {}, status)) await this.#restore(turn, next, lost, true);
    } finally {
      slot.leave();
    }
  }

  /**
   * Returns the task after the update: from the answer, or by another read if the answer does not show it completely
   * and no earlier update of the same fields was compared. Also returns the slot that is to be completed.
   */
  async #taskAfter(
    turn: Turn,
    slot: Slot,
    { changed, before, answer }: Sent,
  ): Promise<{ readonly task?: TaskFields; readonly slot: Slot }> {
    const task = answer.body === undefined ? undefined : fieldsOf(answer as ApiAnswer<TaskFields>);
    if (task !== undefined) {
      const cleared = clearedFields(before.task, task, changed);
      if (cleared.every((name) => Object.hasOwn(task, name))) return { task, slot };
    }
    const verified = turn.facts.verified?.[turn.form.form] ?? [];
    if (Object.keys(changed).every((name) => verified.includes(name))) return { slot };
    const next = await this.#followingSlot(turn.prepared);
    if (next === undefined || !(await this.#passOn(slot, next, async () => {}, answer.status))) return { slot };
    try {
      return { task: fieldsOf(await this.#readTask(turn)), slot: next };
    } catch {
      return { slot: next };
    }
  }

  async #noteAccepted(transaction: Scope, accepted: AcceptedUpdate): Promise<void> {
    await noteRouteAnswered(transaction, 'updateTask', this.#context.clock.now());
    await noteUpdateAccepted(transaction, accepted);
  }

  /** Acquires a slot for the next request of the turn; undefined if the outbox stops. */
  async #followingSlot({ trace: { due } }: PreparedRequest): Promise<Slot | undefined> {
    try {
      return await this.#context.throttle.acquire({
        lane: 'status',
        due,
        isFollower: true,
        signal: this.#signal,
      });
    } catch (error) {
      if (asSyncError(error).code === 'aborted') return undefined;
      throw error;
    }
  }

  /** Commits the end of one request and the slot of the next. @returns false if the outbox stopped before the commit */
  async #passOn(slot: Slot, next: Slot, work: (transaction: Scope) => Promise<void>, status: number): Promise<boolean> {
    let isCommitted = false;
    const commit = async () => {
      await this.#context.store.commit(async (transaction) => {
        await slot.complete({ status, key: null }, transaction);
        await next.record(transaction);
        await work(transaction);
      });
      isCommitted = true;
    };
    await retryUntilCommitted(this.#context, commit, this.#signal);
    if (!isCommitted) next.release();
    return isCommitted;
  }

  /** Makes the change pending again, because nothing was written. @param status that of the answer, if the slot was used */
  async #requeue(
    prepared: PreparedRequest,
    slot: Slot,
    status?: number,
    work: (transaction: Scope) => Promise<void> = async () => {},
  ): Promise<void> {
    const commit = () =>
      this.#context.store.commit(async (transaction) => {
        await slot.complete(status === undefined ? undefined : { status, key: null }, transaction);
        await work(transaction);
        await updateChange(transaction, prepared.entity, pendingAgain(prepared));
      });
    await retryUntilCommitted(this.#context, commit, this.#signal);
  }
}

/** Runs work with a slot, and releases the slot if the work has not used it. A slot that was used is completed already. */
async function withSlot(slot: Slot, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } finally {
    slot.release();
    slot.leave();
  }
}

/** Returns the task as the server wrote it. */
function fieldsOf({ raw, body }: ApiAnswer<TaskFields>): TaskFields {
  return typeof raw === 'object' && raw !== null ? (raw as TaskFields) : body;
}
