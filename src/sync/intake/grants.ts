import { hash } from 'node:crypto';
import type { AccessTokens, OAuthGrant } from '../../connectors/connector.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer, HttpClient } from '../../platform/http/http-client.ts';
import { parseJson } from '../../platform/http/parse-json.ts';
import { errorOfStatus } from '../../platform/http/provider-errors.ts';
import { type Clock, sleep } from '../../platform/lib/clock.ts';
import type { Logger } from '../../platform/lib/logger.ts';
import { SealError, type SecretBox } from '../../platform/lib/secret-box.ts';
import type { Installation } from '../../store/installation.ts';
import {
  claimRenewal,
  loadCredential,
  releaseRenewal,
  type StoredCredential,
  saveCredential,
} from '../../store/oauth-credentials.ts';

export interface GrantDeps {
  readonly installation: Installation;
  /** Whether other processes over the same database may renew the same grants. */
  readonly isShared?: boolean;
  readonly http: HttpClient;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Opened when the first token is stored or read. Throws `secret_key_missing` and `secret_key_wrong`. */
  readonly box: () => SecretBox;
  /** Called with each token, so that no log or message contains one. */
  readonly keepSecret: (token: string) => void;
}

/** The grants of OAuth 2.0 in this process. */
export interface Grants {
  /** Equal grants are one, whatever connections and workspaces share them. `target` is what metrics call the vendor. */
  tokensOf(grant: OAuthGrant, target: string): AccessTokens;
}

const MINUTE = 60_000;
/** A token is renewed so long before its end: no request outlives it. */
const MARGIN = 5 * MINUTE;
/** No vendor's access tokens live longer; what says so may be of a clock that was wrong. */
const LONGEST_LIFE = 48 * 60 * MINUTE;
/** A vendor that names no end: its token is renewed as often as the shortest that is known. */
const USUAL_LIFE = 60 * MINUTE;
/** How seldom a grant that the vendor no longer accepts is tried again: only a new consent helps. */
const DEAD_FOR = 60 * MINUTE;

/** How long one process may take to renew what others wait for, and how often these look, milliseconds. */
const CLAIMED_FOR = 35_000;
const LOOKED_EVERY = 250;

/**
 * Renews access tokens, one request at a time for each grant.
 *
 * A vendor that rotates takes each refresh token once and answers with the next one. So the answer is committed before it is
 * used, and the previous token stays stored until the vendor has accepted the new one. A process that dies between the answer
 * and its commit sends the old token again: vendors allow that for some minutes. After that, and after a backup from before a
 * rotation was put back, the vendor refuses, and `consent_needed` says what is to be done.
 */
export function createGrants(deps: GrantDeps): Grants {
  const known = new Map<string, AccessTokens>();
  return {
    tokensOf(grant, target) {
      const id = idOf(grant);
      const tokens = known.get(id) ?? createTokens(deps, { id, grant, target });
      known.set(id, tokens);
      return tokens;
    },
  };
}

/** Another refresh token in the configuration is another grant: somebody gave consent again. */
function idOf({ tokenUrl, clientId, refreshToken }: OAuthGrant): string {
  return hash('sha256', JSON.stringify([tokenUrl, clientId, refreshToken]), 'hex');
}

interface Identified {
  readonly id: string;
  readonly grant: OAuthGrant;
  readonly target: string;
}

interface Held {
  readonly refresh: string;
  readonly previous?: string;
  readonly access?: string;
  /** By the clock that does not jump. */
  readonly accessEnds: number;
}

function createTokens(deps: GrantDeps, { id, grant, target }: Identified): AccessTokens {
  const { installation, http, clock, logger, keepSecret } = deps;
  let held: Held | undefined;
  let getting: Promise<string> | undefined;
  let dead: { readonly error: SyncError; readonly until: number } | undefined;
  let refusedToken: string | undefined;

  async function load(): Promise<Held> {
    if (held) return held;
    const row = await loadCredential(installation.query, id).catch((error: unknown) => {
      throw asSyncError(error);
    });
    held = row ? opened(deps, id, row) : { refresh: grant.refreshToken, accessEnds: 0 };
    for (const token of tokensIn(held)) keepSecret(token);
    return held;
  }

  async function keep(next: Held & { readonly access: string }): Promise<void> {
    const row = sealed(deps, id, next);
    // Known to the scrubber before anything can fail and be told.
    for (const token of tokensIn(next)) keepSecret(token);
    await installation
      .commit((transaction) => saveCredential(transaction, id, row))
      .catch((error: unknown) => {
        throw asSyncError(error);
      });
    held = next;
  }

  async function renew(): Promise<string> {
    if (dead && clock.monotonic() < dead.until) throw dead.error;
    const before = await load();
    for (const refresh of [before.refresh, ...(before.previous === undefined ? [] : [before.previous])]) {
      const answer = await ask(http, grant, { refresh, target });
      if (isRefusal(answer)) continue;
      const told = read(answer, clock.now());
      const life = Math.min((told.expires_in ?? USUAL_LIFE / 1_000) * 1_000, LONGEST_LIFE);
      const isRotated = told.refresh_token !== undefined && told.refresh_token !== refresh;
      await keep({
        refresh: told.refresh_token ?? refresh,
        ...(isRotated && { previous: refresh }),
        access: told.access_token,
        accessEnds: clock.monotonic() + life,
      });
      dead = undefined;
      logger.info({ target, lifeSeconds: Math.round(life / 1_000) }, 'access token renewed');
      return told.access_token;
    }
    const error = new SyncError('consent_needed', `${target} no longer accepts the refresh token of the configuration`);
    dead = { error, until: clock.monotonic() + DEAD_FOR };
    throw error;
  }

  function fresh({ access, accessEnds }: Held): string | undefined {
    const isFresh = access !== refusedToken && clock.monotonic() < accessEnds - MARGIN;
    return isFresh ? access : undefined;
  }

  /** What another process has renewed meanwhile is as good as what this one would get; a second request would spend a token twice. */
  async function renewInTurn(): Promise<string> {
    const { query } = installation;
    for (;;) {
      held = undefined;
      const known = fresh(await load());
      if (known !== undefined) return known;
      if (await claimRenewal(query, id, clock.now(), clock.now() + CLAIMED_FOR)) break;
      await sleep(clock, LOOKED_EVERY);
    }
    try {
      // Whoever had the claim may have renewed it between the two statements.
      held = undefined;
      return fresh(await load()) ?? (await renew());
    } finally {
      await releaseRenewal(query, id);
    }
  }

  /** While a vendor cannot be asked, a token is good until its very end. */
  async function renewOrUse(): Promise<string> {
    try {
      return await (deps.isShared ? renewInTurn() : renew());
    } catch (error) {
      const { access, accessEnds = 0 } = held ?? {};
      const isPassing = error instanceof SyncError && (error.verdict === 'retry' || error.code === 'rate_limited');
      if (isPassing && access !== undefined && clock.monotonic() < accessEnds) return access;
      throw error;
    }
  }

  async function loadOrRenew(): Promise<string> {
    return fresh(await load()) ?? (await renewOrUse());
  }

  return {
    async get(signal) {
      if (signal.aborted) throw new SyncError('aborted', 'the process is stopping');
      const known = held && fresh(held);
      if (known !== undefined) return known;
      // Callers that come meanwhile wait for the same answer: a second request would spend the same token twice. They wait for the
      // row too: one that is read before the renewal, and comes after it, would put the spent token in the place of the new one.
      getting ??= loadOrRenew().finally(() => (getting = undefined));
      return getting;
    },
    refused(token) {
      refusedToken = token;
      if (held?.access === token) held = { ...held, access: undefined, accessEnds: 0 };
    },
  };
}

function opened({ box: boxOf, clock, installation }: GrantDeps, id: string, row: StoredCredential): Held {
  const box = boxOf();
  try {
    const left = Math.min(row.accessExpiresAt - clock.now(), LONGEST_LIFE);
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

function sealed(
  { box: boxOf, clock }: GrantDeps,
  id: string,
  next: Held & { readonly access: string },
): StoredCredential {
  const box = boxOf();
  const now = clock.now();
  return {
    refresh: box.seal(next.refresh, `${id} refresh`),
    previous: next.previous === undefined ? null : box.seal(next.previous, `${id} previous`),
    access: box.seal(next.access, `${id} access`),
    // The monotonic clock counts parts of milliseconds, and rows hold whole ones.
    accessExpiresAt: Math.floor(now + next.accessEnds - clock.monotonic()),
    renewedAt: now,
  };
}

function tokensIn({ refresh, previous, access }: Held): readonly string[] {
  return [refresh, previous, access].filter((token) => token !== undefined);
}

async function ask(
  http: HttpClient,
  { tokenUrl, clientId, clientSecret, encoding }: OAuthGrant,
  { refresh, target }: { readonly refresh: string; readonly target: string },
): Promise<HttpAnswer> {
  const wish = {
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
    body: isJson ? JSON.stringify(wish) : new URLSearchParams(wish).toString(),
    target,
  });
}

function errorIn(answer: HttpAnswer): unknown {
  return fieldsOf(answer)['error'];
}

/** The token is used up, ended, or taken back; Atlassian says so with 403 (RFC 6749 §5.2: 400). */
function isRefusal(answer: HttpAnswer): boolean {
  return answer.status >= 400 && answer.status <= 403 && errorIn(answer) === 'invalid_grant';
}

interface Granted {
  readonly access_token: string;
  readonly refresh_token?: string;
  /** Seconds. */
  readonly expires_in?: number;
}

const TOKEN = /^[\x21-\x7e]{1,8000}$/;

function isToken(value: unknown): value is string {
  return typeof value === 'string' && TOKEN.test(value);
}

function read(answer: HttpAnswer, now: number): Granted {
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
  const said = errorIn(answer);
  if (said === 'invalid_client' || said === 'unauthorized_client')
    throw new SyncError('unauthorized', `${what}: the vendor rejected the client (${said})`, {
      status: answer.status,
      hint: "Compare oauth.clientId and oauth.clientSecret with the vendor's console.",
    });
  throw errorOfStatus(answer, what, now);
}

/** Empty for what is no object of JSON. */
function fieldsOf({ body }: HttpAnswer): Readonly<Record<string, unknown>> {
  try {
    const content = parseJson(body);
    return typeof content === 'object' && content !== null ? (content as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
