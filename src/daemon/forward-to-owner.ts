import type { Sharing } from '../admin/replica-status.ts';
import type { Identity } from '../cluster/admitted-caller.ts';
import type { Place } from '../gateway/destination.ts';
import { createGatewayForwarding, type GatewayForwarding } from '../gateway/gateway-forwarding.ts';
import type { TokenBook } from '../gateway/token-book.ts';
import type { WorkspaceConfig } from '../platform/config/schema.ts';
import type { Installation } from '../store/installation.ts';
import { signedBy } from '../web/access-control.ts';
import type { Elsewhere } from '../web/forward-request.ts';
import type { Sessions } from '../web/sessions.ts';
import { workspaceIdOf } from './partition-stages.ts';
import { versionHeaderOf } from './workspace-send.ts';
import type { Workspaces } from './workspaces.ts';

interface DoorsElsewhereDeps {
  readonly sharing: Sharing;
  readonly installation: Installation;
  readonly workspaces: Workspaces;
  readonly tokenBook: TokenBook;
  readonly sessions: Pick<Sessions, 'isOpen'>;
}

/** How the doors of this process lead to workspaces that others work on. */
export interface OwnerForwarding {
  /** @param isAdmin whether it has the pages and nothing else */
  forServer(isAdmin: boolean): Elsewhere;
  readonly forGateway: GatewayForwarding;
}

export function forwardToOwner(deps: DoorsElsewhereDeps): OwnerForwarding {
  const { sharing, installation, workspaces, tokenBook, sessions } = deps;
  const { replicas } = sharing;
  const isHere = (name: string) => workspaces.find(name) !== undefined;
  const places = createPlaces(installation);
  const configOf = (name: string) => workspaces.configured().find((config) => config.name === name);

  async function isStillKnown({ session, gatewayToken, workspaces: limited }: Identity): Promise<boolean> {
    if (session && !(await sessions.isOpen(session.digest))) return false;
    if (gatewayToken === undefined) return true;
    const workspace = (await tokenBook.withId(gatewayToken))?.workspace;
    return workspace !== undefined && limited?.includes(workspace) === true;
  }

  return {
    forServer: (isAdmin) => ({ replicas, isHere, isStillKnown, isAdmin }),
    forGateway: createGatewayForwarding({
      ...{ replicas, signedBy },
      places: () => workspaces.configured().flatMap((config) => (isHere(config.name) ? [] : [places(config)])),
      longestWait: (name) => configOf(name)?.gateway.wait ?? 0,
      versionHeader: (name) => versionHeaderOf(configOf(name)?.workspace.api),
    }),
  };
}

/** What tells whether a request is for a workspace that is not open here; made once for each configuration. */
function createPlaces(installation: Installation): (config: WorkspaceConfig) => Place {
  const known = new WeakMap<WorkspaceConfig, Place>();
  return (config) => {
    const found = known.get(config);
    if (found) return found;
    let opened: Promise<() => Promise<string | undefined>> | undefined;
    const open = async () => workspaceIdOf(config, await installation.store(config.name));
    const place: Place = {
      name: config.name,
      async workspaceId() {
        opened ??= open();
        return (await opened)();
      },
    };
    known.set(config, place);
    return place;
  };
}
