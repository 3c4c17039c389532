import type { DeliverySource } from '../model/delivery.ts';
import type { Item } from '../model/item.ts';

/**
 * Whether the commits of a pull request must be read: none are known, or its head is another one than before. Of finished
 * ones only where a webhook tells of them: a list of the past would cost a request for each.
 *
 * What was fetched never asks: it brought them, or showed that they cannot be read.
 */
export function lacksCommits(before: Item | undefined, now: Item, source: DeliverySource): boolean {
  if (now.kind !== 'pull_request' || now.gone || source === 'fetch') return false;
  if (now.state !== 'open' && source !== 'webhook') return false;
  return now.commitMessages === undefined || headOf(before) !== now.headSha;
}

function headOf(item: Item | undefined): string | undefined {
  return item?.kind === 'pull_request' ? item.headSha : undefined;
}
