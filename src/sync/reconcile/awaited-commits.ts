import type { DeliverySource } from '../../model/delivery.ts';
import type { Item } from '../../model/item.ts';

/**
 * Decides whether the commits of a pull request must be fetched: none are known, or its head changed and is not the head whose
 * commits are known. For finished pull requests only a webhook causes the fetch, because a list of old ones would cost a request each.
 *
 * A fetched object causes another fetch only if its commits belong to a head that is no longer the newest. Otherwise it contained
 * the commits, or showed that they cannot be read.
 *
 * @param before the stored item before the delivery
 * @param current the stored item after it
 * @param received the content of the delivery itself
 */
export function needsCommits(
  before: Item | undefined,
  current: Item,
  source: DeliverySource,
  received: Item = current,
): boolean {
  if (current.kind !== 'pull_request' || current.gone) return false;
  if (source === 'fetch') {
    const commitsSha = received.kind === 'pull_request' ? received.commitsSha : undefined;
    return commitsSha !== undefined && commitsSha !== current.headSha;
  }
  if (current.state !== 'open' && source !== 'webhook') return false;
  if (current.commitMessages === undefined) return true;
  return current.commitsSha !== current.headSha && headOf(before) !== current.headSha;
}

/**
 * Decides whether a waiting or running fetch will return the missing commits, or show that they must be requested again. A fetch that
 * began when the commits of an older head were known may return none.
 */
export function isCoveredByFetch(current: Item, source: DeliverySource): boolean {
  return source === 'fetch' || (current.kind === 'pull_request' && current.commitsSha === undefined);
}

function headOf(item: Item | undefined): string | undefined {
  return item?.kind === 'pull_request' ? item.headSha : undefined;
}
