import { type Replicas, readBody } from '../cluster/replicas.ts';
import type { Identity } from '../cluster/signature.ts';
import { asSyncError, type SyncError } from '../model/errors.ts';
import type { AnswerRoom } from '../platform/http/admission.ts';
import { type HttpAnswer, isSafe } from '../platform/http/http-client.ts';
import type { ServerRequest } from '../platform/http/server.ts';
import { type Place, passedHeaders } from './destination.ts';
import { type Outgoing, outgoing, refuse, retrySoon, unauthorized } from './outgoing.ts';

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
        ...{ method, url, isAdmin: false, headers: { ...passedHeaders(request, versionHeader(workspace)), ...own } },
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
  const ours = OURS.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]] as const]));
  return { ...theirs, headers: { ...theirs.headers, ...Object.fromEntries(ours) } };
}

/** No process owns the workspace at the moment, or it has just moved. */
const MOVING = retrySoon('workspace_elsewhere', 'another replica works on this workspace: repeat the request');

function failureOf(method: string, { code }: SyncError): Outgoing {
  if (code === 'unreachable') return MOVING;
  if (isSafe(method))
    return refuse(502, 'workspace_unreachable', 'the replica of this workspace sent no usable answer');
  return refuse(504, 'outcome_unknown', 'no answer came: the outcome of the request is unknown');
}
