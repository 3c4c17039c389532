import { readMeta, writeMeta } from './meta.ts';
import type { Scope } from './workspace-scope.ts';

/**
 * The order of requests to the workspace and of what is known of its links. Each request that is sent gets the next revision;
 * what is written or read is stored with the revision at the receipt of its answer. So an answer can tell whether something
 * became known after its request was sent: no clock could, because clocks are set back and two events share a millisecond.
 */
const REVISION = 'revision';

export async function currentRevision(query: Scope): Promise<number> {
  return Number((await readMeta(query, REVISION)) ?? 0);
}

/** The revision of a request that this transaction sends. */
export async function nextRevision(query: Scope): Promise<number> {
  const revision = (await currentRevision(query)) + 1;
  await writeMeta(query, REVISION, String(revision));
  return revision;
}
