// Design: src/decisions/replicas.md

import type { Sharing } from '../admin/replica-status.ts';
import type { Identity } from '../cluster/signature.ts';
import type { Place } from '../gateway/destination.ts';
import { createGatewayForwarding, type GatewayForwarding } from '../gateway/gateway-forwarding.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Installation } from '../store/installation.ts';
import { signedBy } from '../web/access-control.ts';
import type { Elsewhere } from '../web/forward-request.ts';
import type { Sessions } from '../web/sessions.ts';
import type { DaemonContext } from './daemon-context.ts';
import { workspaceIdOf } from './partition-stages.ts';
import { versionHeaderOf } from './workspace-send.ts';
import type { Workspaces } from './workspaces.ts';

interface OwnerForwardingDeps {
  readonly sharing: Sharing;
  readonly workspaces: Workspaces;
  readonly sessions: Pick<Sessions, 'isOpen'>;
}

/** Forwards requests to the processes that own their workspaces. */
export interface OwnerForwarding {
  /** @param isAdmin whether the server has only the pages and the admin API */
  forServer(isAdmin: boolean): Elsewhere;
  readonly forGateway: GatewayForwarding;
}

export function createOwnerForwarding(
  { installation, tokenBook }: Pick<DaemonContext, 'installation' | 'tokenBook'>,
  { sharing: { replicas }, workspaces, sessions }: OwnerForwardingDeps,
): OwnerForwarding {
  const isHere = (name: string) => workspaces.find(name) !== undefined;
  const placeOf = createPlaces(installation);
  const configOf = (name: string) => workspaces.configured().find((config) => config.name === name);

  /** Checks the session or token that another process has verified, because it may have been revoked since. */
  async function isStillKnown({ session, gatewayToken, workspaces: limited }: Identity): Promise<boolean> {
    if (session && !(await sessions.isOpen(session.digest))) return false;
    if (gatewayToken === undefined) return true;
    const workspace = (await tokenBook.withId(gatewayToken))?.workspace;
    return workspace !== undefined && limited?.includes(workspace) === true;
  }

  return {
    forServer: (isAdmin) => ({ replicas, isHere, isStillKnown, isAdmin }),
    forGateway: createGatewayForwarding({
      replicas,
      signedBy,
      places: () => workspaces.configured().flatMap((config) => (isHere(config.name) ? [] : [placeOf(config)])),
      longestWait: (name) => configOf(name)?.gateway.wait ?? 0,
      versionHeader: (name) => versionHeaderOf(configOf(name)?.workspace.api),
    }),
  };
}

/** Creates the lookup of workspaces that are not open here; each configuration has one cached entry. */
function createPlaces(installation: Installation): (config: WorkspaceConfig) => Place {
  const cached = new WeakMap<WorkspaceConfig, Place>();
  return (config) => {
    const existing = cached.get(config);
    if (existing) return existing;
    let opened: Promise<() => Promise<string | undefined>> | undefined;
    const open = async () => workspaceIdOf(config, await installation.store(config.name));
    const place: Place = {
      name: config.name,
      async workspaceId() {
        opened ??= open();
        return (await opened)();
      },
    };
    cached.set(config, place);
    return place;
  };
}
