import type { ConnectionConfig, WorkspaceConfig } from '../platform/config/schema.ts';
import type { Tracer } from '../platform/lib/tracer.ts';
import type { Installation } from '../store/installation.ts';
import { WORKSPACE } from '../store/workspace-answers.ts';
import type { GroupCommit } from '../sync/intake/append.ts';
import { type Collector, createCollector } from '../sync/intake/append.ts';
import type { Receiver } from '../sync/intake/webhook-routes.ts';
import type { Parts } from './parts.ts';
import { workspaceReceiver } from './workspace-webhooks.ts';

/**
 * Takes webhooks for workspaces that another process works on: every process over one database stores them, and the owner is
 * told. Verifying a delivery and storing it needs no lease.
 */
export interface RemoteIntake {
  receiver(config: WorkspaceConfig, connection: string): Receiver | undefined;
}

interface IntakeElsewhereDeps {
  readonly installation: Installation;
  readonly groupCommit: GroupCommit;
  readonly tracer?: Tracer;
  /** Tells the owner of this workspace that something came. */
  readonly tell: (workspace: string) => void;
}

export function createRemoteIntake(
  deps: IntakeElsewhereDeps,
  parts: Pick<Parts, 'clock' | 'logger' | 'metrics' | 'connectors'>,
): RemoteIntake {
  const collectors = new Map<string, Collector>();

  /** Its rows are looked for when its first delivery comes. */
  function collectorOf(workspace: string): Collector {
    const known = collectors.get(workspace);
    if (known) return known;
    const { groupCommit } = deps;
    let opened: Promise<Collector> | undefined;
    const open = async () => {
      const store = await deps.installation.store(workspace);
      const wakeSignal = { notify: () => deps.tell(workspace), wait: () => new Promise<void>(() => undefined) };
      return createCollector({ store, clock: parts.clock, groupCommit, wakeSignal });
    };
    const collector: Collector = {
      async append(delivery) {
        opened ??= open().catch((error: unknown) => {
          opened = undefined;
          throw error;
        });
        return (await opened).append(delivery);
      },
      isCrowded: groupCommit.isCrowded,
    };
    collectors.set(workspace, collector);
    return collector;
  }

  return {
    receiver({ name: workspace, connections, workspace: { webhook } }, connection) {
      const received = {
        collector: collectorOf(workspace),
        meter: parts.metrics.forWorkspace(workspace),
        logger: parts.logger.child({ workspace }),
        tracer: deps.tracer?.child({ 'worksync.workspace': workspace }),
      };
      if (connection === WORKSPACE)
        return webhook && workspaceReceiver(webhook, { ...received, onEvent: () => undefined });
      const config = connections.find(({ name }) => name === connection);
      return config && { active: activeOf(config, parts), ...received };
    },
  };
}

function activeOf(
  { name, connector: id, webhookSecrets }: ConnectionConfig,
  { connectors }: Pick<Parts, 'connectors'>,
) {
  const connector = connectors.find((each) => each.id === id) as Parts['connectors'][number];
  return { name, secrets: webhookSecrets, connector };
}
