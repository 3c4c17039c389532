import { compose } from '../daemon/compose.ts';
import { drained } from './drain.ts';
import type { Session } from './session.ts';

export interface OnceResult {
  readonly workspace: string;
  readonly pullRequests: number;
  readonly links: number;
  /** Deliveries and changes left because of the quota, or waiting for a person. */
  readonly left: number;
}

/** `worksync once`: polls everything, takes it over, sends what the quota allows, and ends. */
export async function once(session: Session): Promise<OnceResult[]> {
  const composition = await compose(session, session.parts);
  try {
    return await Promise.all(
      composition.partitions.map(async (partition) => {
        partition.startWithoutPolls();
        await partition.polls.pollNow();
        const left = await drained(partition, session.parts.clock);
        const { pullRequests, links } = await partition.status();
        return { workspace: partition.name, pullRequests: pullRequests.total, links: links.total, left };
      }),
    );
  } finally {
    await composition.close();
  }
}
