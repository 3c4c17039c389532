import { type Identity, type Replicas, readBody } from '../cluster/replicas.ts';
import { asSyncError, type SyncError } from '../model/errors.ts';
import type { AnswerRoom } from '../platform/http/admission.ts';
import type { HttpAnswer } from '../platform/http/http-client.ts';
import { isSafe } from '../platform/http/http-client.ts';
import type { ServerRequest } from '../platform/http/server.ts';
import { BASE_PATH } from '../workspace-api/contract.ts';
import type { PassedRequest } from '../workspace-api/typed-client.ts';
import { type Known, quotaCallerOf, type Stranger } from './known-callers.ts';
import { headersNamed, type Outgoing, outgoing, refuse, retrySoon, unauthorized } from './outgoing.ts';
import type { Upstream } from './upstream.ts';

/** The destination of a request, with the proof that the caller belongs to it. */
export interface Destination {
  readonly upstream: Upstream;
  /** Below the base path. It names the workspace by its id if known, so that equal reads have equal addresses. */
  readonly path: string;
  /**
   * Whether success proves that the caller is one of this workspace's own: its credential is known, or the path names
   * the workspace or one of its tasks by id. `current` of a stranger is whatever workspace the credential is bound to.
   */
  readonly isProof: boolean;
}

/** A workspace that is configured: open here, or not. */
export type Place = Pick<Upstream, 'name' | 'workspaceId'>;

/** Characters of RFC 3986, section 3.3. Excludes everything that a proxy could read as another path. */
const PATH = /^(?:\/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-Fa-f]{2})+)+\/?$/;
const AMBIGUOUS = /\/\.{1,2}(?:\/|$)|%(?:2e|2f|5c|25|00)/i;

/** Returns the path below the base path, as the caller spelled it; undefined if decoding could lead outside of it. */
export function pathOf(url: string): string | undefined {
  if (!url.startsWith(`${BASE_PATH}/`) || url.includes('#')) return undefined;
  const path = url.slice(BASE_PATH.length).split('?', 1)[0] as string;
  return PATH.test(path) && !AMBIGUOUS.test(path) ? path : undefined;
}

/**
 * Returns the workspace that a request is for. The caller's known workspace decides, then the path; a stranger that names none
 * gets the only workspace, if there is only one. Otherwise the result is an error answer.
 *
 * @param elsewhere configured workspaces that are not open here; the result may be one of them
 */
export async function destinationOf(
  { upstreams, elsewhere }: { readonly upstreams: readonly Upstream[]; readonly elsewhere: readonly Place[] },
  caller: Known | Stranger,
  path: string,
): Promise<Destination | { readonly elsewhere: Place } | Outgoing> {
  const named = workspaceOf(path);
  if (caller.kind !== 'stranger') return knownDestination(caller, path, named);
  const place = await strangersPlace([...upstreams, ...elsewhere], named);
  const upstream = place && upstreams.find(({ name }) => name === place.name);
  if (upstream) return strangersDestination(upstream, path, named);
  if (place) return { elsewhere: place };
  if (named !== undefined && named !== 'current') return FOREIGN;
  const message = 'several workspaces are configured: name one in the path, or use a gateway token';
  return refuse(400, 'bad_request', message);
}

const FOREIGN = refuse(403, 'workspace_forbidden', 'the workspace cannot be accessed');

async function knownDestination(
  { upstream }: Known,
  path: string,
  named: string | undefined,
): Promise<Destination | Outgoing> {
  const id = await upstream.workspaceId();
  if (named === undefined) return { upstream, path, isProof: true };
  const isOurs = named === 'current' || named === upstream.name || named === id;
  if (isOurs) return { upstream, path: renamed(path, id ?? 'current'), isProof: true };
  return id === undefined ? { upstream, path, isProof: true } : FOREIGN;
}

/** Finds the workspace by its id, or by its name here; takes the only one if the path names none or the id is unknown. */
async function strangersPlace(places: readonly Place[], named = 'current'): Promise<Place | undefined> {
  const [only] = places.length === 1 ? places : [];
  if (named === 'current') return only;
  for (const place of places) if ((await place.workspaceId()) === named) return place;
  const byName = places.find(({ name }) => name === named);
  if (byName) return byName;
  return only && (await only.workspaceId()) === undefined ? only : undefined;
}

async function strangersDestination(upstream: Upstream, path: string, named: string | undefined): Promise<Destination> {
  if (named === undefined) {
    const taskId = taskOf(path);
    return { upstream, path, isProof: taskId !== undefined && (await upstream.hasTask(taskId)) };
  }
  const id = await upstream.workspaceId();
  if (id !== undefined) return { upstream, path: renamed(path, id), isProof: true };
  return { upstream, path: named === upstream.name ? renamed(path, 'current') : path, isProof: false };
}

function renamed(path: string, id: string): string {
  return path.replace(/^\/workspaces\/[^/]+/, `/workspaces/${id}`);
}

/** The headers of a request that the gateway forwards to the workspace, in addition to the version of the API. */
const PASSED_ON = ['accept', 'content-type', 'if-none-match', 'if-match', 'range'];

export function passedRequest(
  request: ServerRequest,
  { path, upstream }: Destination,
  caller: Known | Stranger,
): PassedRequest {
  const at = request.url.indexOf('?');
  return {
    method: request.method as PassedRequest['method'],
    path,
    query: at === -1 ? '' : request.url.slice(at),
    headers: headersNamed([...PASSED_ON, upstream.settings.versionHeader], request.headers),
    ...(Buffer.isBuffer(request.body) && request.body.length > 0 ? { body: request.body } : {}),
    ...(caller.kind === 'token' ? {} : { authorization: request.headers.authorization ?? '' }),
    caller: quotaCallerOf(caller, request.headers.authorization ?? ''),
  };
}

/**
 * Returns the parts of a read that, besides its address and caller, decide on the answer: each forwarded header, without the
 * condition that the gateway checks itself. `accept` comes first, and alone if there is no other, as usual.
 */
export function variantOf({ headers }: Pick<ServerRequest, 'headers'>, versionHeader: string): string {
  const { accept = '', [versionHeader]: version, 'content-type': type, 'if-match': match } = headers;
  if (version === undefined && type === undefined && match === undefined) return accept;
  return JSON.stringify([accept, version, type, match]);
}

/** The task that a path outside any workspace begins with. */
export function taskOf(path: string): string | undefined {
  return /^\/tasks\/([^/]+)\//.exec(path)?.[1];
}

/** The workspace that a path names; undefined where it names none, as `/tasks/…` does. */
export function workspaceOf(path: string): string | undefined {
  return /^\/workspaces\/([^/]+)(?:\/|$)/.exec(path)?.[1];
}

export type GatewayForwarding = ReturnType<typeof createGatewayForwarding>;

/** Milliseconds that the workspace and its owner may take. */
const PATIENCE = 35_000;

/**
 * The other processes of the installation, which serve callers of this one's gateway. A request is forwarded to the owner of its
 * workspace: once, and never a request that was already forwarded.
 *
 * @param longestWait returns the milliseconds that a caller waits for the quota of this workspace
 * @param versionHeader returns the name of the header with the version of this workspace's API, in lower case
 */
export function createGatewayForwarding({
  replicas,
  longestWait,
  versionHeader,
  places,
  signedBy,
}: {
  readonly replicas: Replicas;
  readonly longestWait: (workspace: string) => number;
  readonly versionHeader: (workspace: string) => string;
  /** Configured workspaces that are not open here. */
  places(): readonly Place[];
  /** The caller of another process, which forwarded the request to this one. */
  signedBy(request: ServerRequest): Identity | undefined;
}) {
  /**
   * @param room the part of the server's budget that the answer takes
   * @param gatewayToken id of the token of the caller; absent: the caller shows the owner a credential of its own
   */
  async function pass(
    workspace: string,
    request: ServerRequest,
    room: AnswerRoom,
    gatewayToken?: string,
  ): Promise<Outgoing> {
    const { method, url, ip, body, headers: given } = request;
    const owner = signedBy(request) ? undefined : await replicas.ownerOf(workspace);
    if (!owner) return places().some(({ name }) => name === workspace) ? MOVING : unauthorized();
    const own: Record<string, string> = gatewayToken === undefined ? { authorization: given.authorization ?? '' } : {};
    try {
      const answer = await replicas.forward(owner, {
        ...{
          method,
          url,
          isAdmin: false,
          headers: { ...headersNamed([...PASSED_ON, versionHeader(workspace)], given), ...own },
        },
        ...{ body: Buffer.isBuffer(body) ? body : undefined, patience: PATIENCE + longestWait(workspace) },
        identity: { role: 'read', workspaces: [workspace], ip, gatewayToken },
      });
      return passedBack(answer.headers, { ...answer, body: await readBody(answer.body, room) }, room);
    } catch (error) {
      room.leave();
      return failureOf(method, asSyncError(error));
    }
  }
  return { places, signedBy, pass };
}

/** Headers that the gateway adds to those of the workspace: the age of the answer. */
const OURS = ['age', 'cache-control'];

function passedBack(given: Readonly<Record<string, string>>, answer: HttpAnswer, room: AnswerRoom): Outgoing {
  const theirs = outgoing(answer, room);
  return { ...theirs, headers: { ...theirs.headers, ...headersNamed(OURS, given) } };
}

/** No process owns the workspace at the moment, or it has just moved. */
const MOVING = retrySoon('workspace_elsewhere', 'another replica works on this workspace: repeat the request');

function failureOf(method: string, { code }: SyncError): Outgoing {
  if (code === 'unreachable') return MOVING;
  if (isSafe(method))
    return refuse(502, 'workspace_unreachable', 'the replica of this workspace sent no usable answer');
  return refuse(504, 'outcome_unknown', 'no answer came: the outcome of the request is unknown');
}
