import { readMeta, writeMeta } from '../../store/meta.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { ConfiguredShare } from './ceiling.ts';
import { wasUsed } from './window-ledger.ts';

/** Name of the fact with the share that the previous process was configured to use. */
const SHARE = 'throttle.share';
/** What an unset share was before it was `auto`, and before the share was noted. */
const FORMER = 0.8;

/**
 * Notes the share. What is not set can change with a version: somebody is to be told.
 *
 * @returns the share before, where it was another; undefined where it was this one, or nothing was ever sent
 */
export async function noteShare(query: Scope, share: ConfiguredShare): Promise<ConfiguredShare | undefined> {
  const noted = await readMeta(query, SHARE);
  const former = noted === undefined ? FORMER : (JSON.parse(noted) as ConfiguredShare);
  const isNew = noted === undefined && !(await wasUsed(query));
  if (noted === undefined || former !== share) await writeMeta(query, SHARE, JSON.stringify(share));
  return isNew || former === share ? undefined : former;
}
