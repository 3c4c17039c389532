import { compose } from '../daemon/compose.ts';
import { type OnceResult, pollOnce } from '../daemon/once.ts';
import { askOwner, hasOwner } from './owner.ts';
import type { Session } from './session.ts';
import { plural, printable } from './words.ts';

/** `worksync once`: polls everything, takes it over, sends what the quota allows, and ends. A running daemon does it. */
export async function once(session: Session): Promise<readonly OnceResult[]> {
  const { options, parts } = session;
  if (await hasOwner(options.data)) return askOwner(options.data, 'POST', '/admin/once');
  const composition = await compose(session, parts);
  try {
    for (const partition of composition.partitions) partition.startUnscheduled();
    return await Promise.all(composition.partitions.map((partition) => pollOnce(partition, parts.clock)));
  } finally {
    await composition.close();
  }
}

export function describeOnce({ workspace, pullRequests, links, left, failures }: OnceResult): string {
  const held = `${workspace}: ${plural(pullRequests, 'pull request')}, ${plural(links, 'link')}, ${left} left`;
  return [held, ...failures.map((failure) => `  failed: ${printable(failure)}`)].join('\n');
}
