import { createHmac, hash } from 'node:crypto';
import type { Access } from '../../model/caller.ts';
import { createAddressGuard } from '../../platform/http/addresses.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { isSameSecret } from '../../platform/lib/digest.ts';
import {
  addLoginLink,
  addSession,
  consumeLoginLink,
  endSession,
  findSession,
  purgeExpiredLogins,
  touchSession,
} from '../../store/access/session-rows.ts';
import type { Installation } from '../../store/installation/installation.ts';
import type { StoreContext } from '../../store/store-context.ts';

/** A credential for pages, metrics and admin actions. */
export interface Token extends Access {
  readonly secret: string;
  /** The daemon's own token, which commands on this machine send. */
  readonly isOwn?: true;
}

/** A token that was found, by its digest. */
interface KnownToken extends Access {
  readonly digest: string;
  readonly isOwn?: true;
}

/** A token this long cannot be guessed. */
const UNGUESSABLE = 32;

/** Wrong tokens that an address may try, and how soon it may try another. */
const PATIENCE = { burst: 20, perSecond: 1 / 10 };

export type Callers = ReturnType<typeof createCallers>;

/**
 * Decides what a bearer may do. A token that cannot be guessed is always checked, so nobody can lock its owner out. Shorter ones
 * are not checked for an address that sent too many wrong ones.
 */
export function createCallers(tokens: readonly Token[], clock: Clock) {
  const known = tokens.map(({ secret, role, workspaces, isOwn }) => ({
    ...{ role, workspaces, digest: digestOf(secret), ...(isOwn && { isOwn }) },
    isGuessable: secret.length < UNGUESSABLE,
  }));
  const guard = createAddressGuard(clock, PATIENCE);
  const find = (secret: string, isGuessable: boolean): KnownToken | undefined => {
    const digest = digestOf(secret);
    const among = known.filter((token) => token.isGuessable === isGuessable);
    // Compares all, so that the time does not reveal which one matched.
    return among.filter((token) => isSameSecret(digest, token.digest))[0];
  };
  return {
    /** `wrong`: there is no such token. `limited`: this address sent too many wrong ones, so it was not checked. */
    bearer(secret: string, address: string): KnownToken | 'wrong' | 'limited' {
      const sure = find(secret, false);
      if (sure) return sure;
      if (!guard.admits(address)) return 'limited';
      const found = find(secret, true);
      if (found) return found;
      guard.failed(address);
      return 'wrong';
    },
    /** Returns the token with this SHA-256 digest, in hex; undefined if it is not configured any more. */
    withDigest: (digest: string): KnownToken | undefined => known.find((token) => token.digest === digest),
  };
}

/** Milliseconds: a link until it is used; a session at most; a session that nobody uses. */
const LINK_LIFE = 10 * 60_000;
const LONGEST_SESSION = 30 * 86_400_000;
const IDLE_SESSION = 7 * 86_400_000;
/** Milliseconds between two updates of the last use of a session, because each is a write to the disk. */
const NOTED_EVERY = 3_600_000;

const SECRET_BYTES = 32;

/** A browser that is logged in, as one of its requests shows. */
export interface LoggedIn extends Access {
  readonly digest: string;
  /** Only our own pages contain it: a request of another site's page lacks it. */
  readonly pageToken: string;
}

export interface Cookie {
  readonly name: string;
  readonly secret: string;
  readonly maxAge: number;
}

export type Sessions = ReturnType<typeof createSessions>;

/** Sessions are rows, found by the digest of the cookie's secret, so that they outlive the process. */
export function createSessions(
  { installation, clock, random }: Pick<StoreContext, 'clock' | 'random'> & { readonly installation: Installation },
  callers: Pick<Callers, 'withDigest'>,
) {
  const { query } = installation;
  const newSecret = () => random.bytes(SECRET_BYTES).toString('base64url');

  // Cookies know no ports: each instance on a machine has a name of its own. Browsers take `__Host-` over TLS only.
  const cookieName = (isTls: boolean) => `${isTls ? '__Host-' : ''}worksync-${installation.id}`;

  async function open(
    access: Access,
    openedBy: string | null,
    isTls: boolean,
    transaction: Parameters<typeof addSession>[0],
  ): Promise<Cookie> {
    const secret = newSecret();
    const now = clock.now();
    await purgeExpiredLogins(transaction, now);
    const { role, workspaces } = access;
    const times = { createdAt: now, seenAt: now, expiresAt: now + IDLE_SESSION };
    await addSession(transaction, { digest: digestOf(secret), role, workspaces, openedBy, ...times });
    return { name: cookieName(isTls), secret, maxAge: LONGEST_SESSION / 1_000 };
  }

  return {
    cookieName,
    /** Returns the secret of a link that logs one browser in, once, within ten minutes. */
    async makeLink({ role, workspaces }: Access) {
      const secret = newSecret();
      const expiresAt = clock.now() + LINK_LIFE;
      await addLoginLink(query, { digest: digestOf(secret), role, workspaces, expiresAt });
      return secret;
    },
    /** Uses up a link; undefined if there is none, or it is too old. */
    byLink: (secret: string, isTls: boolean) =>
      installation.commit(async (transaction) => {
        const access = await consumeLoginLink(transaction, digestOf(secret), clock.now());
        return access && open(access, null, isTls, transaction);
      }),
    /** The session ends with the token, and has its rights. */
    byToken: (token: KnownToken, isTls: boolean) =>
      installation.commit((transaction) => open(token, token.digest, isTls, transaction)),
    async find(cookies: string | undefined, isTls: boolean): Promise<LoggedIn | undefined> {
      const secret = cookieOf(cookies, cookieName(isTls));
      if (secret === undefined) return undefined;
      const now = clock.now();
      const session = await findSession(query, digestOf(secret), now);
      if (session === undefined) return undefined;
      const access = session.openedBy === null ? session : callers.withDigest(session.openedBy);
      if (access === undefined) return undefined;
      if (now - session.seenAt > NOTED_EVERY) {
        const expiresAt = Math.min(session.createdAt + LONGEST_SESSION, now + IDLE_SESSION);
        await touchSession(query, { digest: session.digest, seenAt: now, expiresAt });
      }
      const { role, workspaces } = access;
      return { digest: session.digest, role, workspaces, pageToken: pageTokenOf(secret) };
    },
    /** Whether there still is one of this digest. */
    isOpen: async (digest: string) => (await findSession(query, digest, clock.now())) !== undefined,
    end: ({ digest }: Pick<LoggedIn, 'digest'>) => endSession(query, digest),
  };
}

function digestOf(secret: string): string {
  return hash('sha256', secret);
}

function pageTokenOf(secret: string): string {
  return createHmac('sha256', secret).update('page').digest('base64url');
}

/** The value of the one cookie of this name; undefined where there is none or several. */
function cookieOf(header: string | undefined, name: string): string | undefined {
  const values = (header ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`));
  return values.length === 1 ? values[0]?.slice(name.length + 1) : undefined;
}

/** The authenticated caller of a request. */
export type Caller = Access & {
  readonly session?: LoggedIn | undefined;
  readonly token?: KnownToken | undefined;
  readonly gatewayToken?: string | undefined;
};
