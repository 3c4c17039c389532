import { hash } from 'node:crypto';
import { keyCaller, tokenCaller } from '../model/caller.ts';
import type { Clock, Random } from '../platform/lib/clock.ts';
import type { LiveToken } from '../store/access/gateway-tokens.ts';
import { TOKEN_PREFIX, type TokenBook } from './token-book.ts';
import type { Upstream } from './upstream.ts';

/**
 * The caller of a request.
 *
 *   token     a gateway token, by its id: bound to its workspace; the daemon's key is used in its place. May have cached answers.
 *   key       an API key that the workspace accepted within the last minute. May have cached answers.
 *   stranger  any other caller, also one with an OAuth token: forwarded, and `workspace-api/capture/` records the answer. `name`
 *             identifies the credential; `credible` if it was accepted within the last minute.
 *   elsewhere a gateway token of a workspace that is not open here, by its id.
 *   nobody    no bearer, or a gateway token that does not exist or was revoked: nothing is forwarded.
 */
export type Caller = Known | Stranger | Elsewhere | { readonly kind: 'nobody' };
export type Elsewhere = { readonly kind: 'elsewhere'; readonly id: string; readonly workspace: string };
export type Known =
  | { readonly kind: 'token'; readonly upstream: Upstream; readonly id: string }
  | { readonly kind: 'key'; readonly upstream: Upstream };
export type Stranger = { readonly kind: 'stranger'; readonly name: string; readonly credible: boolean };

export type Callers = ReturnType<typeof createCallers>;

/** The workspace accepted a credential. */
interface Acceptance {
  readonly upstream: Upstream;
  /** When the request began, by the monotonic clock: a refusal since then is newer and counts. */
  readonly since: number;
  /** Whether it is proven that the answer came from this workspace, and not from another one of the same server. */
  readonly isProved: boolean;
}

/** Milliseconds for which an accepted credential is trusted: a revoked one gets cached answers for no longer. */
const BELIEVED = 60_000;
/** Limit of the memory that made-up credentials can take. */
const MOST_REMEMBERED = 10_000;

interface Memory {
  /** Present for a key that may have cached answers. */
  readonly upstream?: Upstream | undefined;
  readonly until: number;
  readonly refusedAt: number;
}

export interface CallersOptions {
  /** Returns an open workspace by its name here. */
  readonly upstream: (workspace: string) => Upstream | undefined;
  readonly tokens: TokenBook;
  readonly clock: Clock;
  readonly random: Random;
}

export function createCallers({ upstream: upstreamOf, tokens, clock, random }: CallersOptions) {
  // A key of this process, so that the hashes in memory reveal no credential.
  const pepper = random.bytes(32).toString('base64');
  const remembered = new Map<string, Memory>();
  const nameOf = (secret: string) => hash('sha256', pepper + secret, 'base64');
  const believed = (name: string) => {
    const memory = remembered.get(name);
    return memory !== undefined && memory.until > clock.monotonic() ? memory : undefined;
  };
  const remember = (name: string, memory: Memory) => {
    remembered.delete(name);
    remembered.set(name, memory);
    if (remembered.size > MOST_REMEMBERED) remembered.delete(remembered.keys().next().value as string);
  };
  /** Whether the credential has the form of an API key of this workspace. */
  const isKey = (authorization: string, upstream: Upstream) =>
    secretOf(authorization)?.startsWith(upstream.settings.keyPrefix) ?? false;

  const owner = (token: LiveToken | undefined): Known | undefined => {
    const upstream = token && upstreamOf(token.workspace);
    return upstream && { kind: 'token', upstream, id: token.id };
  };

  const bearerOf = (token: LiveToken | undefined): Caller => {
    if (!token) return { kind: 'nobody' };
    return owner(token) ?? { kind: 'elsewhere', id: token.id, workspace: token.workspace };
  };

  return {
    async identify(authorization: string | undefined): Promise<Caller> {
      const secret = secretOf(authorization);
      if (secret === undefined) return { kind: 'nobody' };
      if (secret.startsWith(TOKEN_PREFIX)) return bearerOf(await tokens.find(secret));
      const name = nameOf(secret);
      const memory = believed(name);
      if (memory?.upstream) return { kind: 'key', upstream: memory.upstream };
      return { kind: 'stranger', name, credible: memory !== undefined };
    },
    /** Returns the caller that another process of the installation has identified by a gateway token. */
    withToken: async (id: string) => bearerOf(await tokens.withId(id)),
    /** Returns a caller that may have cached answers, if it is in memory. */
    recall(authorization: string | undefined): Known | undefined {
      const secret = secretOf(authorization);
      if (secret === undefined) return undefined;
      if (secret.startsWith(TOKEN_PREFIX)) return owner(tokens.recall(secret));
      const upstream = believed(nameOf(secret))?.upstream;
      return upstream && { kind: 'key', upstream };
    },
    isKey,
    accepted(authorization: string, { upstream, since, isProved }: Acceptance): void {
      const name = nameOf(secretOf(authorization) ?? '');
      const before = remembered.get(name);
      if (before && before.refusedAt >= since) return;
      const isKnown = isProved && isKey(authorization, upstream);
      const until = since + BELIEVED;
      // A late answer to an earlier request changes nothing.
      if (before?.upstream && !isKnown && before.until > clock.monotonic()) return;
      remember(name, { upstream: isKnown ? upstream : undefined, until, refusedAt: Number.NEGATIVE_INFINITY });
    },
    /** Forgets a credential after 401 or 403. */
    refused(authorization: string): void {
      const name = nameOf(secretOf(authorization) ?? '');
      remember(name, { until: Number.NEGATIVE_INFINITY, refusedAt: clock.monotonic() });
    },
  };
}

/** Returns the caller for the use of the quota. The hash is the same in every process, so that people can find their key by it. */
export function quotaCallerOf(caller: Known | Stranger, authorization: string): string {
  return caller.kind === 'token' ? tokenCaller(caller.id) : keyCaller(hash('sha256', secretOf(authorization) ?? ''));
}

function secretOf(authorization: string | undefined): string | undefined {
  return /^Bearer +([^\s,]{1,4096}) *$/i.exec(authorization ?? '')?.[1];
}
