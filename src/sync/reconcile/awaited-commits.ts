import type { DeliverySource } from '../../model/delivery.ts';
import type { Item } from '../../model/item.ts';

/**
 * Whether the commits of a pull request must be read: none are known, or its head is another one than before, and not the one
 * that they were read of. Of finished ones only where a webhook tells of them: a list of the past would cost a request for each.
 *
 * What was fetched asks only where it brought the commits of a head that is not the newest any more: else it brought them, or
 * showed that they cannot be read.
 *
 * @param said what the delivery itself says; `now` is what is held with it
 */
export function lacksCommits(before: Item | undefined, now: Item, source: DeliverySource, said: Item = now): boolean {
  if (now.kind !== 'pull_request' || now.gone) return false;
  if (source === 'fetch') {
    const read = said.kind === 'pull_request' ? said.commitsSha : undefined;
    return read !== undefined && read !== now.headSha;
  }
  if (now.state !== 'open' && source !== 'webhook') return false;
  if (now.commitMessages === undefined) return true;
  return now.commitsSha !== now.headSha && headOf(before) !== now.headSha;
}

/**
 * Whether a fetch that waits or is under way brings the commits that are lacking, or shows that it must be asked for anew. One
 * that began when those of an older head were known may read none.
 */
export function comeWithEarlierFetch(now: Item, source: DeliverySource): boolean {
  return source === 'fetch' || (now.kind === 'pull_request' && now.commitsSha === undefined);
}

function headOf(item: Item | undefined): string | undefined {
  return item?.kind === 'pull_request' ? item.headSha : undefined;
}
