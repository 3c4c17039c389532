import { createHmac, hash } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import { findGatewayToken } from '../store/gateway-tokens.ts';
import type { Passage } from './passage.ts';

/**
 * Who asks.
 *
 *   token    a gateway token: bound to its workspace; the daemon's key is used in its place. May have cached answers.
 *   key      an API key that the workspace accepted within the last minute. May have cached answers.
 *   unknown  anything else, OAuth tokens among it: passed through, and what the answer tells is learnt.
 */
export type Caller =
  | { readonly kind: 'token'; readonly passage: Passage }
  | { readonly kind: 'key'; readonly passage: Passage }
  | { readonly kind: 'unknown' };

export interface Callers {
  identify(authorization: string | undefined): Promise<Caller>;
  /** The workspace accepted this credential for an API key. */
  accepted(authorization: string | undefined, passage: Passage): void;
  /** 401 or 403: forgotten at once. */
  refused(authorization: string | undefined): void;
}

/** Secrets of gateway tokens begin so: then no API key is ever looked up as one. */
export const TOKEN_PREFIX = 'wsg_';

/** How long an accepted key is believed, milliseconds: a revoked one gets cached answers for no longer. */
const BELIEVED = 60_000;
/** Bound of the memory that made-up credentials can take. */
const MOST_KEYS = 10_000;

export interface CallersOptions {
  readonly passages: readonly Passage[];
  readonly clock: Clock;
  readonly random: Random;
}

export function createCallers({ passages, clock, random }: CallersOptions): Callers {
  // Known only to this process: what is in memory tells nobody a key.
  const pepper = random.bytes(32);
  const known = new Map<string, { readonly passage: Passage; readonly until: number }>();
  const nameOf = (secret: string) => createHmac('sha256', pepper).update(secret).digest('base64');

  return {
    async identify(authorization) {
      const secret = secretOf(authorization);
      if (secret === undefined) return { kind: 'unknown' };
      if (secret.startsWith(TOKEN_PREFIX)) return identifyToken(passages, secret);
      const found = known.get(nameOf(secret));
      if (!found || found.until <= clock.monotonic()) return { kind: 'unknown' };
      return { kind: 'key', passage: found.passage };
    },
    accepted(authorization, passage) {
      const secret = secretOf(authorization);
      if (!secret?.startsWith(passage.settings.keyPrefix)) return;
      if (known.size >= MOST_KEYS) known.delete(known.keys().next().value as string);
      known.set(nameOf(secret), { passage, until: clock.monotonic() + BELIEVED });
    },
    refused(authorization) {
      const secret = secretOf(authorization);
      if (secret !== undefined) known.delete(nameOf(secret));
    },
  };
}

async function identifyToken(passages: readonly Passage[], secret: string): Promise<Caller> {
  const digest = hash('sha256', secret);
  for (const passage of passages) {
    if (await findGatewayToken(passage.store.query, digest)) return { kind: 'token', passage };
  }
  return { kind: 'unknown' };
}

function secretOf(authorization: string | undefined): string | undefined {
  return /^Bearer +(\S{1,4096}) *$/i.exec(authorization ?? '')?.[1];
}
