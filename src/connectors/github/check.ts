import { z } from 'zod';
import { asSyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Finding } from '../connector.ts';
import { accessFinding, expiryFinding, failedFinding, findingsOf, type GitChecks, limitFinding } from '../kit/check.ts';
import { readAnswer, readable } from '../kit/payload.ts';
import { addressOf, namedIn, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import type { Parts } from './hooks.ts';
import { type Options, scopeOf, shortestPoll } from './options.ts';
import { offIn, one, repositoryPath } from './repositories.ts';

export function createChecks({ api, appApi, options, repositories, clock }: Parts): GitChecks {
  const scope = scopeOf(options);
  return {
    async credential(signal) {
      if (options.app && appApi) return asInstallation(api, appApi, options.app.installationId, signal);
      return options.token === undefined ? [anonymous(options)] : asToken(api, clock.now(), signal);
    },
    get: api.get,
    namedRepositories: () =>
      namedIn(scope).map((subject) => ({
        subject,
        path: repositoryPath(addressOf(subject, scope)),
        describe: (told) => describeRepository(subject, told),
      })),
    offIn: (noun, told) => {
      const repository = readable(one, told);
      return repository && offIn(noun, repository);
    },
    lists: { names: options.issues ? ['pulls', 'issues'] : ['pulls'], query: 'state=all&per_page=1' },
    patterns: patternsOf(scope),
    countMatches: async (signal) => (await repositories.listed(signal)).length,
    refusedLists: repositories.refused,
    limit: (headers) =>
      limitFinding(headers, 'x-ratelimit', ' in this hour', 'Poll less often, or give worksync its own App.'),
  };
}

function anonymous(options: Options): Finding {
  return {
    level: 'warning',
    subject: 'credential',
    message: `none: GitHub allows 60 requests an hour from this address, so polls are at least ${shortestPoll(options) / 60_000} minutes apart, and worksync does not see private repositories`,
    hint: 'Set app (one GitHub App per workspace), or a token.',
  };
}

const appAnswer = z.object({ installations_count: z.int().optional().catch(undefined) });

/** An App has one webhook: an App that is installed elsewhere too cannot serve this workspace alone. */
function asInstallation(api: Api, appApi: Api, installationId: string, signal: AbortSignal) {
  const subject = 'credential';
  return findingsOf(subject, async () => {
    await api.get('/installation/repositories', { query: 'per_page=1', signal });
    const ok: Finding = { level: 'ok', subject, message: `GitHub App, installation ${installationId}` };
    const told = readable(appAnswer, readAnswer(await appApi.get('/app', { signal }), 'GET /app'));
    const count = told?.installations_count ?? 1;
    if (count <= 1) return [ok];
    const message = `the App is installed ${count} times, and all of its installations share one webhook`;
    return [ok, { level: 'warning', subject, message, hint: 'One GitHub App per workspace is the supported form.' }];
  });
}

const account = z.object({ login: z.string() });

async function asToken(api: Api, now: number, signal: AbortSignal): Promise<Finding[]> {
  try {
    const answer = await api.get('/user', { signal });
    const user = readable(account, readAnswer(answer, 'GET /user'));
    return [tokenWorks(user ? `token of ${user.login}` : 'token'), ...expiry(answer, now)];
  } catch (thrown) {
    // Tokens of workflows and of Apps are valid, but have no user.
    const isValid = asSyncError(thrown).code === 'forbidden';
    return [isValid ? tokenWorks('token without a user') : failedFinding('credential', thrown)];
  }
}

/** GitHub names the end of a token, where it has one, as `2026-12-01 10:00:00 UTC`, or with `+0100`. */
const EXPIRY = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) (?:UTC|([+-]\d\d):?(\d\d))$/;

function expiry({ headers }: Pick<HttpAnswer, 'headers'>, now: number): Finding[] {
  const [, day, time, hours, minutes] = EXPIRY.exec(headers['github-authentication-token-expiration'] ?? '') ?? [];
  if (day === undefined) return [];
  const at = Date.parse(`${day}T${time}${hours === undefined ? 'Z' : `${hours}:${minutes}`}`);
  const soon = expiryFinding('the token', { at, shown: day }, now);
  return [soon ?? { level: 'ok', subject: 'credential', message: `the token is valid until ${day}` }];
}

function tokenWorks(whose: string): Finding {
  return {
    level: 'warning',
    subject: 'credential',
    message: `${whose}; it works, but shares its limit with everything else that uses it`,
    hint: 'One GitHub App per workspace is the supported form: set app instead of token.',
  };
}

const metadata = z.object({ full_name: z.string(), archived: z.boolean().optional().catch(undefined) });

function describeRepository(name: string, told: unknown): Finding {
  const { full_name, archived } = readable(metadata, told) ?? { full_name: name, archived: undefined };
  return accessFinding(name, full_name, { archived, write: `${full_name}, or the repository's id,` });
}
