import { readMeta, writeMeta } from './meta.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * Name of the fact that numbers the requests to the workspace. Each sent request gets the next revision, and a link is stored with
 * the revision at which it was written or read. Thus an answer shows whether a link became known after the request was sent. No
 * clock could show that, because clocks are set back and two events may share a millisecond.
 */
const REVISION = 'revision';

export async function currentRevision(query: Scope): Promise<number> {
  return Number((await readMeta(query, REVISION)) ?? 0);
}

/** Returns the revision of a request that this transaction sends. */
export async function nextRevision(query: Scope): Promise<number> {
  const revision = (await currentRevision(query)) + 1;
  await writeMeta(query, REVISION, String(revision));
  return revision;
}
