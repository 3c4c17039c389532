import { readMeta, writeMeta } from '../meta.ts';
import type { Scope } from '../workspace-scope.ts';

/**
 * Name of the fact that numbers the requests to the workspace. Each sent request gets the next revision, and a link or the
 * update of a task is stored with the revision at which it was written or read. Thus an answer shows whether a state became known
 * after the request was sent. No clock could show that, because clocks are set back and two events may share a millisecond.
 */
const REVISION = 'revision';

/** Whether an answer that is true as of this revision may change what is known of an entity. */
export function mayUpdate({ revision }: { readonly revision: number }, asOf: number): boolean {
  return revision <= asOf;
}

export async function currentRevision(query: Scope): Promise<number> {
  return Number((await readMeta(query, REVISION)) ?? 0);
}

/** Returns the revision of a request that this transaction sends. */
export async function nextRevision(query: Scope): Promise<number> {
  const revision = (await currentRevision(query)) + 1;
  await writeMeta(query, REVISION, String(revision));
  return revision;
}
