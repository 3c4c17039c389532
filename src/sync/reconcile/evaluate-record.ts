import type { Capabilities } from '../../connectors/connector.ts';
import { effectOf, entity } from '../../model/change.ts';
import type { PullRequest } from '../../model/item.ts';
import { cut, LONGEST_NAME, LONGEST_TEXT, LONGEST_TITLE, MOST_NAMES } from '../../model/text-limits.ts';
import { blankEntity, findEntity, saveEntity } from '../../store/changes/entities.ts';
import { findChange } from '../../store/changes/outbox-rows.ts';
import { readRecordsRoute } from '../../store/workspace/server-capabilities.ts';
import { addFindings } from '../../store/workspace/workspace-sweeps.ts';
import { json } from '../../store/workspace-scope.ts';
import type { ConnectorFacts, Evaluation, ReconcileConnection } from './context.ts';
import { enqueueDifference } from './enqueue.ts';
import { isSameValue } from './newest-wins.ts';

/**
 * A record as the workspace returned it: the fields that worksync writes, and the tasks that have a link with its URL.
 */
export interface KnownRecord extends Readonly<Record<string, unknown>> {
  readonly taskIds?: readonly string[];
}

export function recordEntity(item: PullRequest, connection: ReconcileConnection): string {
  return entity.pullRequest(connection.connector.id, sentRepoId(item, connection.connector), item.identifier);
}

/**
 * Enqueues the difference between the desired and the known record of a pull request. Stores the desired record even if
 * the connection does not record, or the workspace has no route for records. Returns the known record.
 */
export async function evaluateRecord(evaluation: Evaluation, item: PullRequest): Promise<KnownRecord | undefined> {
  const { query, connection } = evaluation;
  const { capabilities } = connection.connector;
  const name = recordEntity(item, connection);
  const row = (await findEntity(query, name)) ?? blankEntity(name, 'pull_request');
  const known = json<KnownRecord>(row.known);
  const desired = desiredRecord(item, connection.connector);
  if (desired === undefined && known === undefined) return undefined;
  const stored = desired ? JSON.stringify(desired) : null;
  await saveEntity(query, { ...row, item_key: item.key, desired: stored });
  const isRecorded = connection.records && (await readRecordsRoute(query)).state !== 'closed';
  const differs = isRecorded && desired !== undefined && recordDiffers({ ...desired }, known, capabilities);
  const isRepair = differs && (await isFoundBySweep(evaluation, name, known));
  const effect = effectOf('pull_request', desired && { ...desired }, known) ?? (isRepair ? 'repair' : null);
  await enqueueDifference(evaluation, 'pull_request', name, { differs, renewed: row.desired !== stored, effect });
  return known;
}

/** Reports a difference that the sweep found, unless the change that removes it already waits. */
async function isFoundBySweep({ query, cause, now }: Evaluation, name: string, known: KnownRecord | undefined) {
  if (!cause.isSweep || (await findChange(query, name))) return false;
  const what = known === undefined ? 'record-missing' : 'record-changed';
  await addFindings(query, [{ what, entity: name }], now);
  return true;
}

/**
 * Returns the desired record of a pull request (W58, W59); undefined while a field that the workspace requires is not known. An
 * absent field is not compared.
 */
export function desiredRecord(item: PullRequest, connector: ConnectorFacts) {
  // The workspace trims titles. An untrimmed title would differ from the known one forever.
  const title = item.title?.trim();
  if (item.gone || !title || !item.headBranch || !item.baseBranch) return undefined;
  const can = connector.capabilities;
  return withoutAbsent({
    provider: connector.id,
    repoId: sentRepoId(item, connector),
    identifier: item.identifier,
    title: cut(title, LONGEST_TITLE),
    // The workspace accepts no null here: a description that is known to be empty is sent as the empty text.
    description: item.description === undefined ? undefined : cut(item.description ?? '', LONGEST_TEXT),
    headBranch: item.headBranch,
    baseBranch: item.baseBranch,
    state: item.state,
    draft: can.supportsDraft ? item.draft : undefined,
    url: item.url,
    author: item.author && item.author.length > LONGEST_NAME ? undefined : item.author,
    reviewers: can.supportsReviewers ? nameSet(item.reviewers) : undefined,
    labels: can.supportsLabels ? nameSet(item.labels) : undefined,
    assignees: can.supportsAssignees ? nameSet(item.assignees) : undefined,
    createdAt: item.createdAt,
    mergedAt: item.mergedAt,
  });
}

/**
 * Returns the repository id that is sent to the workspace: `<host>:<id>` for a host other than the vendor's public one.
 */
function sentRepoId(item: PullRequest, connector: ConnectorFacts): string {
  return item.host === connector.publicHost ? item.repoId : `${item.host}:${item.repoId}`;
}

/**
 * Sorts names, because vendors return them in changing order and the order has no meaning. Removes names that are too
 * long, because the workspace would reject the whole record.
 */
function nameSet(values: readonly string[] | undefined): readonly string[] | undefined {
  const names = values?.filter((name) => name.length <= LONGEST_NAME);
  return names && [...new Set(names)].sort().slice(0, MOST_NAMES);
}

function withoutAbsent<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Value;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Decides whether a record must be written. A closed pull request of a provider that cannot reopen is final in the
 * workspace: any update of it would be rejected, so none is sent.
 */
export function recordDiffers(desired: Fields, known: Fields | undefined, capabilities: Capabilities): boolean {
  if (known === undefined) return true;
  if (!capabilities.reopensClosed && known['state'] === 'declined') return false;
  return differingFields(desired, known).length > 0;
}

/** Returns the fields of `desired` whose known value differs. */
export function differingFields(desired: Fields, known: Fields): string[] {
  return Object.keys(desired).filter(
    (field) => !isSameValue(normalized(field, desired[field]), normalized(field, known[field])),
  );
}

/** Fields that are instants (RFC 3339): servers may write them in another form. */
const INSTANTS: ReadonlySet<string> = new Set(['createdAt', 'mergedAt']);

/**
 * Normalizes a value, because servers may return an empty text as null, as absent or as it is, and lists in another
 * order.
 */
function normalized(field: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? null : [...new Set<string>(value)].sort();
  if (typeof value === 'string' && INSTANTS.has(field)) return Date.parse(value);
  return value === undefined || value === '' ? null : value;
}
