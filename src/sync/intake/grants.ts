import { hash } from 'node:crypto';
import type { AccessTokens, OAuthGrant } from '../../connectors/connector.ts';
import { errorOfStatus } from '../../connectors/kit/refusal.ts';
import { asSyncError, SyncError } from '../../model/errors.ts';
import type { HttpAnswer, HttpClient } from '../../platform/http/http-client.ts';
import { parseJson } from '../../platform/http/parse-json.ts';
import { sleep } from '../../platform/lib/clock.ts';
import { SealError, type SecretBox } from '../../platform/lib/secret-box.ts';
import {
  claimRenewal,
  loadCredential,
  releaseRenewal,
  type StoredCredential,
  saveCredential,
} from '../../store/connections/oauth-credentials.ts';
import type { Installation } from '../../store/installation/installation.ts';
import type { StoreContext } from '../../store/store-context.ts';

export interface GrantDeps extends Pick<StoreContext, 'clock' | 'logger'> {
  readonly installation: Installation;
  /** Whether other processes over the same database may renew the same grants. */
  readonly isShared?: boolean;
  readonly http: HttpClient;
  /** Called when the first token is stored or loaded. Throws `secret_key_missing` and `secret_key_wrong`. */
  readonly box: () => SecretBox;
  /** Called with each token, so that no log or message contains one. */
  readonly keepSecret: (token: string) => void;
}

/** The OAuth 2.0 grants of this process. */
export type Grants = ReturnType<typeof createGrants>;

const MINUTE = 60_000;
/** How long before its end a token is renewed, milliseconds: longer than any request. */
const MARGIN = 5 * MINUTE;
/** The longest lifetime of an access token at any vendor, milliseconds. A longer one comes from a wrong clock. */
const LONGEST_LIFETIME = 48 * 60 * MINUTE;
/** The lifetime if the vendor names none: the shortest known one, milliseconds. */
const DEFAULT_LIFETIME = 60 * MINUTE;
/** The pause before a rejected grant is tried again, milliseconds. It is long, because only a new consent helps. */
const REJECTED_PAUSE = 60 * MINUTE;

/** How long one process may take to renew a grant while others wait, and how often these check, milliseconds. */
const CLAIM_DURATION = 35_000;
const CLAIM_CHECK_INTERVAL = 250;

/**
 * Renews access tokens, one request at a time for each grant.
 *
 * A vendor that rotates accepts each refresh token once and answers with the next one. So the answer is committed
 * before it is used, and the previous token stays stored until the vendor has accepted the new one. After a crash
 * between the answer and its commit, the old token is sent again: vendors allow that for some minutes. After that, and
 * after a restore of a backup from before a rotation, the vendor rejects it, and `consent_needed` says what to do.
 */
export function createGrants(deps: GrantDeps) {
  const tokensById = new Map<string, AccessTokens>();
  return {
    /**
     * Returns the access tokens of a grant. Connections and workspaces with equal grants share them.
     *
     * @param target the name of the vendor in metrics
     */
    tokensOf(grant: OAuthGrant, target: string) {
      const id = idOf(grant);
      const tokens = tokensById.get(id) ?? createTokens(deps, { id, grant, target });
      tokensById.set(id, tokens);
      return tokens;
    },
  };
}

/**
 * Returns the id of a grant. Another refresh token in the configuration is another grant, because it is a new consent.
 */
function idOf({ tokenUrl, clientId, refreshToken }: OAuthGrant): string {
  return hash('sha256', JSON.stringify([tokenUrl, clientId, refreshToken]), 'hex');
}

interface IdentifiedGrant {
  readonly id: string;
  readonly grant: OAuthGrant;
  readonly target: string;
}

interface Credential {
  readonly refresh: string;
  readonly previous?: string;
  readonly access?: string;
  /** The end of the access token by the monotonic clock, milliseconds. */
  readonly accessEnds: number;
}

type RenewedCredential = Credential & { readonly access: string };

function createTokens(deps: GrantDeps, { id, grant, target }: IdentifiedGrant): AccessTokens {
  const { installation, http, clock, logger, keepSecret } = deps;
  let cached: Credential | undefined;
  let pending: Promise<string> | undefined;
  let rejected: { readonly error: SyncError; readonly until: number } | undefined;
  let refusedToken: string | undefined;

  /** Returns the access token: the cached one, the stored one, or a new one. */
  async function loadOrRenew(): Promise<string> {
    return usableToken(await load()) ?? (await renewOrUse());
  }

  async function load(): Promise<Credential> {
    if (cached) return cached;
    const row = await loadCredential(installation.query, id).catch((error: unknown) => {
      throw asSyncError(error);
    });
    cached = row ? opened(deps, id, row) : { refresh: grant.refreshToken, accessEnds: 0 };
    for (const token of tokensIn(cached)) keepSecret(token);
    return cached;
  }

  function usableToken({ access, accessEnds }: Credential): string | undefined {
    const isUsable = access !== refusedToken && clock.monotonic() < accessEnds - MARGIN;
    return isUsable ? access : undefined;
  }

  /**
   * Renews the token. While the vendor is unreachable or limits requests, the present one is used until its very end.
   */
  async function renewOrUse(): Promise<string> {
    try {
      return await (deps.isShared ? renewAlone() : renew());
    } catch (error) {
      const { access, accessEnds = 0 } = cached ?? {};
      const isTemporary = error instanceof SyncError && (error.verdict === 'retry' || error.code === 'rate_limited');
      if (isTemporary && access !== undefined && clock.monotonic() < accessEnds) return access;
      throw error;
    }
  }

  /**
   * Renews the token while no other process does. A token that another process renewed meanwhile is used instead,
   * because a second request would use up a refresh token twice.
   */
  async function renewAlone(): Promise<string> {
    const { query } = installation;
    for (;;) {
      const renewed = await reload();
      if (renewed !== undefined) return renewed;
      if (await claimRenewal(query, id, clock.now(), clock.now() + CLAIM_DURATION)) break;
      await sleep(clock, CLAIM_CHECK_INTERVAL);
    }
    try {
      // Another process may have renewed it between the two statements.
      return (await reload()) ?? (await renew());
    } finally {
      await releaseRenewal(query, id);
    }
  }

  async function reload(): Promise<string | undefined> {
    cached = undefined;
    return usableToken(await load());
  }

  /** Tries the current and the previous refresh token. Throws `consent_needed` if the vendor rejects both. */
  async function renew(): Promise<string> {
    if (rejected && clock.monotonic() < rejected.until) throw rejected.error;
    const { refresh: current, previous } = await load();
    for (const refresh of [current, ...(previous === undefined ? [] : [previous])]) {
      const answer = await requestTokens(http, grant, { refresh, target });
      if (isRejected(answer)) continue;
      const tokens = readTokens(answer, clock.now());
      const lifetime = Math.min((tokens.expires_in ?? DEFAULT_LIFETIME / 1_000) * 1_000, LONGEST_LIFETIME);
      const isRotated = tokens.refresh_token !== undefined && tokens.refresh_token !== refresh;
      await save({
        refresh: tokens.refresh_token ?? refresh,
        ...(isRotated && { previous: refresh }),
        access: tokens.access_token,
        accessEnds: clock.monotonic() + lifetime,
      });
      rejected = undefined;
      logger.info({ target, lifeSeconds: Math.round(lifetime / 1_000) }, 'access token renewed');
      return tokens.access_token;
    }
    const error = new SyncError('consent_needed', `${target} no longer accepts the refresh token of the configuration`);
    rejected = { error, until: clock.monotonic() + REJECTED_PAUSE };
    throw error;
  }

  async function save(next: RenewedCredential): Promise<void> {
    const row = sealed(deps, id, next);
    // The scrubber must know the tokens before any failure can be logged.
    for (const token of tokensIn(next)) keepSecret(token);
    await installation
      .commit((transaction) => saveCredential(transaction, id, row))
      .catch((error: unknown) => {
        throw asSyncError(error);
      });
    cached = next;
  }

  return {
    async get(signal) {
      if (signal.aborted) throw new SyncError('aborted', 'the process is stopping');
      const token = cached && usableToken(cached);
      if (token !== undefined) return token;
      // Concurrent callers share one answer, because a second request would use up the same refresh token twice. They share the
      // read of the row too: a row that was read before a renewal must not replace the new token after it.
      pending ??= loadOrRenew().finally(() => (pending = undefined));
      return pending;
    },
    refused(token) {
      refusedToken = token;
      if (cached?.access === token) cached = { ...cached, access: undefined, accessEnds: 0 };
    },
  };
}

function opened({ box: boxOf, clock, installation }: GrantDeps, id: string, row: StoredCredential): Credential {
  const box = boxOf();
  try {
    const left = Math.min(row.accessExpiresAt - clock.now(), LONGEST_LIFETIME);
    return {
      refresh: box.open(row.refresh, `${id} refresh`),
      ...(row.previous !== null && { previous: box.open(row.previous, `${id} previous`) }),
      access: box.open(row.access, `${id} access`),
      accessEnds: clock.monotonic() + left,
    };
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    throw new SyncError('secret_key_wrong', `the OAuth tokens in ${installation.file} are encrypted with another key`);
  }
}

function sealed({ box: boxOf, clock }: GrantDeps, id: string, next: RenewedCredential): StoredCredential {
  const box = boxOf();
  const now = clock.now();
  return {
    refresh: box.seal(next.refresh, `${id} refresh`),
    previous: next.previous === undefined ? null : box.seal(next.previous, `${id} previous`),
    access: box.seal(next.access, `${id} access`),
    // The monotonic clock counts fractions of milliseconds; rows contain whole ones.
    accessExpiresAt: Math.floor(now + next.accessEnds - clock.monotonic()),
    renewedAt: now,
  };
}

function tokensIn({ refresh, previous, access }: Credential): readonly string[] {
  return [refresh, previous, access].filter((token) => token !== undefined);
}

async function requestTokens(
  http: HttpClient,
  { tokenUrl, clientId, clientSecret, encoding }: OAuthGrant,
  { refresh, target }: { readonly refresh: string; readonly target: string },
): Promise<HttpAnswer> {
  const fields = {
    grant_type: 'refresh_token',
    client_id: clientId,
    client_secret: clientSecret,
    refresh_token: refresh,
  };
  const isJson = encoding === 'json';
  return http.request({
    method: 'POST',
    url: tokenUrl,
    headers: {
      accept: 'application/json',
      'user-agent': 'worksync',
      'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded',
    },
    body: isJson ? JSON.stringify(fields) : new URLSearchParams(fields).toString(),
    target,
  });
}

function errorIn(answer: HttpAnswer): unknown {
  return fieldsOf(answer)['error'];
}

/**
 * Returns whether the refresh token is used up, expired or revoked. RFC 6749 §5.2 prescribes 400; Atlassian answers
 * 403.
 */
function isRejected(answer: HttpAnswer): boolean {
  return answer.status >= 400 && answer.status <= 403 && errorIn(answer) === 'invalid_grant';
}

interface TokenResponse {
  readonly access_token: string;
  readonly refresh_token?: string;
  /** Seconds. */
  readonly expires_in?: number;
}

const TOKEN = /^[\x21-\x7e]{1,8000}$/;

function isToken(value: unknown): value is string {
  return typeof value === 'string' && TOKEN.test(value);
}

function readTokens(answer: HttpAnswer, now: number): TokenResponse {
  const what = 'renew the access token';
  const { access_token, refresh_token, expires_in } = fieldsOf(answer);
  if (answer.status === 200) {
    if (!isToken(access_token)) throw new SyncError('answer_malformed', `${what}: the answer contains no token`);
    return {
      access_token,
      ...(isToken(refresh_token) && { refresh_token }),
      ...(typeof expires_in === 'number' && expires_in > 0 && { expires_in }),
    };
  }
  const error = errorIn(answer);
  if (error === 'invalid_client' || error === 'unauthorized_client')
    throw new SyncError('unauthorized', `${what}: the vendor rejected the client (${error})`, {
      status: answer.status,
      hint: "Compare oauth.clientId and oauth.clientSecret with the vendor's console.",
    });
  throw errorOfStatus(answer, what, now);
}

/** Returns the fields of a JSON object; empty for any other body. */
function fieldsOf({ body }: HttpAnswer): Readonly<Record<string, unknown>> {
  try {
    const content = parseJson(body);
    return typeof content === 'object' && content !== null ? (content as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
