import { effectOf, entity } from '../../model/change.ts';
import type { PullRequest } from '../../model/item.ts';
import { blankEntity, findEntity, json, saveEntity } from '../../store/entities.ts';
import { findChange } from '../../store/outbox-rows.ts';
import { readRecordsRoute } from '../../store/server-capabilities.ts';
import { addFindings } from '../../store/workspace-sweeps.ts';
import { setDifference, type Work } from './changes.ts';
import type { Source } from './context.ts';
import { desiredRecord, sentRepoId } from './desired.ts';
import { recordDiffers } from './diff.ts';

/** What a record of the workspace says beside the fields we write: the tasks that have a link with its URL. */
export interface KnownRecord extends Readonly<Record<string, unknown>> {
  readonly taskIds?: readonly string[];
}

export function recordEntity(item: PullRequest, source: Source): string {
  return entity.pullRequest(source.vendor.id, sentRepoId(item, source.vendor), item.identifier);
}

/**
 * Brings the record of a pull request to what its provider says. What it should say is kept also if the connection does not
 * record, or the workspace has no route for it.
 *
 * @returns the record as it is known
 */
export async function evaluateRecord(work: Work, item: PullRequest): Promise<KnownRecord | undefined> {
  const { query, source } = work;
  const name = recordEntity(item, source);
  const row = (await findEntity(query, name)) ?? blankEntity(name, 'pull_request');
  const known = json<KnownRecord>(row.known);
  const desired = desiredRecord(item, source.vendor);
  if (desired === undefined && known === undefined) return undefined;
  const next = desired ? JSON.stringify(desired) : null;
  await saveEntity(query, { ...row, item_key: item.key, desired: next });
  const isRecorded = source.records && (await readRecordsRoute(query)).state !== 'closed';
  const differs =
    isRecorded && desired !== undefined && recordDiffers({ ...desired }, known, source.vendor.capabilities);
  const isRepair = differs && (await isFoundBySweep(work, name, known));
  const effect = effectOf('pull_request', desired && { ...desired }, known) ?? (isRepair ? 'repair' : null);
  const target = { name, kind: 'pull_request', lane: 'mirror' } as const;
  await setDifference(work, target, { differs, renewed: row.desired !== next, effect });
  return known;
}

/** A sweep does not report a difference that already waits to be written. */
async function isFoundBySweep({ query, cause, moment }: Work, name: string, known: KnownRecord | undefined) {
  if (!cause.isSweep || (await findChange(query, name))) return false;
  const what = known === undefined ? 'record-missing' : 'record-changed';
  await addFindings(query, [{ what, entity: name }], moment.now);
  return true;
}
