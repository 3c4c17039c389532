import githubAppJwt from 'universal-github-app-jwt';
import { z } from 'zod';
import { SyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { ConnectionDeps } from '../connector.ts';
import { providerTime } from '../kit/answers.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
import { bearer } from '../kit/rest.ts';
import { refusal } from './answers.ts';
import { type Access, apiBase } from './options.ts';

/** Headers of every request. */
export const HEADERS = {
  accept: 'application/vnd.github+json',
  'x-github-api-version': '2022-11-28',
  'user-agent': 'worksync',
};

type Headers = Readonly<Record<string, string>>;

type App = NonNullable<Access['app']>;

export interface Auth {
  /** Headers that authenticate a request; of an App, with an installation token that is created when needed. */
  headers(signal: AbortSignal): Promise<Headers>;
  /** Reports that GitHub refused the credential: the next request gets a new installation token. */
  forget(): void;
}

type Deps = Pick<ConnectionDeps, 'http' | 'clock'>;

export function createAuth(access: Access, deps: Deps): Auth {
  if (access.app) return installationAuth(access, access.app, deps);
  return { headers: async () => bearer(access.token), forget() {} };
}

/** Authenticates as the App itself, to read about the App and its webhook. */
export function createAppAuth(app: App, clock: Clock): Auth {
  return { headers: async () => bearer(await sign(app, clock)), forget() {} };
}

const MINUTE = 60_000;
const installationToken = z.object({ token: z.string().min(1), expires_at: z.iso.datetime({ offset: true }) });

/**
 * Authenticates as an installation of a GitHub App. A token is valid for an hour; worksync replaces it five minutes before
 * it expires, by the clock that does not jump.
 */
function installationAuth(access: Access, app: App, deps: Deps): Auth {
  const { clock } = deps;
  let held: { headers: Headers; until: number } | undefined;
  return {
    async headers(signal) {
      if (held && clock.monotonic() < held.until) return held.headers;
      const { token, lifetime } = await mint(access, app, deps, signal);
      held = { headers: bearer(token), until: clock.monotonic() + lifetime - 5 * MINUTE };
      return held.headers;
    },
    forget() {
      held = undefined;
    },
  };
}

async function mint(access: Access, app: App, { http, clock }: Deps, signal: AbortSignal) {
  const what = 'create an installation token';
  const url = `${apiBase(access)}/app/installations/${app.installationId}/access_tokens`;
  const headers = { ...HEADERS, ...bearer(await sign(app, clock)) };
  const answer = await http.request({ method: 'POST', url, headers, target: 'github', signal });
  if (answer.status !== 201) throw explained(refusal(answer, what, clock.now()));
  const { token, expires_at } = parseAnswer(installationToken, readAnswer(answer, what), what);
  return { token, lifetime: Date.parse(expires_at) - (providerTime(answer) ?? clock.now()) };
}

async function sign(app: App, clock: Clock): Promise<string> {
  try {
    const now = Math.floor(clock.now() / 1_000);
    return (await githubAppJwt({ id: app.id, privateKey: app.privateKey, now })).token;
  } catch {
    // The cause is left out: it may quote the key.
    throw new SyncError('unauthorized', 'the private key of the GitHub App cannot be used', {
      hint: 'Download a new private key from the settings of the App, and give worksync the whole file, unchanged.',
    });
  }
}

function explained(error: SyncError): SyncError {
  if (error.status !== 401 && error.status !== 404) return error;
  return new SyncError('unauthorized', error.message, {
    status: error.status,
    hint: "Compare app.id, app.installationId and the private key with the App's settings, and this machine's clock with the time.",
  });
}
