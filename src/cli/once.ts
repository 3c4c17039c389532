import { compose } from '../daemon/compose.ts';
import { type OnceResult, pollOnce } from '../operator/once.ts';
import { askOwner, hasOwner } from './owner.ts';
import { audibly } from './patience.ts';
import type { Session } from './session.ts';
import { plural, printable } from './words.ts';

/** The longest that the vendors' answers to one round of polls take, milliseconds. */
const POLLS = 600_000;

/** `worksync once`: polls everything, takes it over, sends what the quota allows, and ends. A running daemon does it. */
export async function once(session: Session, patience: number): Promise<readonly OnceResult[]> {
  const { options, parts } = session;
  if (await hasOwner(options.data)) {
    const path = `/admin/once?patience=${patience}`;
    return askOwner(options.data, 'POST', path, undefined, patience + POLLS);
  }
  const composition = await compose(session, parts);
  try {
    for (const partition of composition.workspaces.partitions()) partition.startUnscheduled();
    const poll = () =>
      Promise.all(composition.workspaces.partitions().map((each) => pollOnce(each, parts.clock, patience)));
    return await audibly('polls, and for free quota', patience, poll);
  } finally {
    await composition.close();
  }
}

export function describeOnce({ workspace, pullRequests, links, left, failures }: OnceResult): string {
  const held = `${workspace}: ${plural(pullRequests, 'pull request')}, ${plural(links, 'link')}, ${left} left`;
  return [held, ...failures.map((failure) => `  failed: ${printable(failure)}`)].join('\n');
}
