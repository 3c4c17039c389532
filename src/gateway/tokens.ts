import { hash } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import type { Random } from '../lib/random.ts';
import type { Store } from '../store/database.ts';
import {
  addGatewayToken,
  type GatewayToken,
  listGatewayTokens,
  liveDigests,
  revokeGatewayToken,
} from '../store/gateway-tokens.ts';

/** Secrets of gateway tokens begin so: then no API key is ever looked up as one, and none is sent to the workspace. */
export const TOKEN_PREFIX = 'wsg_';

const SECRET_BYTES = 32;
const ID_BYTES = 9;

/** The gateway tokens of one workspace. Whoever holds the database is its only writer, so the live ones are in memory. */
export interface Tokens {
  /** Whether this secret is a live token. */
  holds(secret: string): Promise<boolean>;
  /** The same from memory; undefined where that must be read first. */
  recalls(secret: string): boolean | undefined;
  /** The secret is in the answer and nowhere else. */
  create(description: string): Promise<{ id: string; secret: string }>;
  /** Revoked ones too, oldest first. */
  list(): Promise<GatewayToken[]>;
  /** At once. False where there is no such live token. */
  revoke(id: string): Promise<boolean>;
}

export interface TokensOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
}

export function createTokens({ store, clock, random }: TokensOptions): Tokens {
  let live: Set<string> | undefined;
  const recalls = (secret: string) => live?.has(digestOf(secret));
  const reread = async () => {
    live = await liveDigests(store.query);
  };
  return {
    async holds(secret) {
      if (!live) await reread();
      return recalls(secret) ?? false;
    },
    recalls,
    async create(description) {
      const secret = TOKEN_PREFIX + random.bytes(SECRET_BYTES).toString('base64url');
      const id = `gwt_${random.bytes(ID_BYTES).toString('hex')}`;
      await addGatewayToken(store.query, { id, digest: digestOf(secret), description, now: clock.now() });
      await reread();
      return { id, secret };
    },
    list: () => listGatewayTokens(store.query),
    async revoke(id) {
      const isRevoked = await revokeGatewayToken(store.query, id, clock.now());
      await reread();
      return isRevoked;
    },
  };
}

function digestOf(secret: string): string {
  return hash('sha256', secret);
}
