import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Clock } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/logger.ts';
import type { Installation } from '../store/installation.ts';
import { recordTriageStarts } from '../store/meta.ts';
import { numbersOf } from '../store/workspace-numbers.ts';

interface Deps {
  readonly installation: Installation;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Triage counts from when the first process was configured with it. Each takes webhooks from then on, and the owner may open
 * the workspace only later: what changed meanwhile would be too old otherwise, and get no task. Never rejects.
 */
export async function recordTriageStart(
  workspaces: readonly WorkspaceConfig[],
  { installation, clock, logger }: Deps,
): Promise<void> {
  const now = clock.now();
  const triaged = workspaces.filter(({ rules }) => rules.triage.length > 0);
  if (triaged.length === 0) return;
  const { query } = installation;
  try {
    const numbers = await numbersOf(
      query,
      triaged.map(({ name }) => name),
    );
    const wanted = triaged.map(({ connections }, index) => ({
      workspace: numbers[index] as number,
      connections: connections.map(({ name }) => name),
    }));
    await recordTriageStarts(query, wanted, now);
  } catch (error) {
    logger.error({ error }, 'triage is switched on only when its workspaces open');
  }
}
