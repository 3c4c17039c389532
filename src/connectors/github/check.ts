import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import type { Finding } from '../connector.ts';
import { failed, renamed } from '../kit/finding.ts';
import { readAnswer, readable } from '../kit/json.ts';
import { addressOf, namedIn, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf, shortestPoll } from './options.ts';
import { type Repositories, repositoryPath } from './repositories.ts';

interface CheckDeps {
  readonly api: Api;
  /** As the App itself, where there is one. */
  readonly appApi: Api | undefined;
  readonly options: Options;
  readonly repositories: Repositories;
}

/** Proves the credential, each repository that is named, the patterns, and what is left of the limit. Reads only. */
export async function checkGithub(deps: CheckDeps, signal: AbortSignal): Promise<readonly Finding[]> {
  const { api, options } = deps;
  const findings = await credential(deps, signal);
  let last: HttpAnswer | undefined;
  for (const name of namedIn(scopeOf(options))) {
    const path = repositoryPath(addressOf(name, scopeOf(options)));
    try {
      last = await api.get(path, { signal });
      findings.push(describeRepository(name, last));
      // Metadata is readable with any right; the lists are not.
      last = await api.get(`${path}/pulls`, { query: 'state=all&per_page=1', signal });
      if (options.issues) last = await api.get(`${path}/issues`, { query: 'state=all&per_page=1', signal });
    } catch (thrown) {
      findings.push(failed(name, asSyncError(thrown)));
    }
  }
  findings.push(...(await describePatterns(deps, signal)));
  return last ? [...findings, limit(last)] : findings;
}

async function credential(deps: CheckDeps, signal: AbortSignal): Promise<Finding[]> {
  const { api, appApi, options } = deps;
  if (options.app && appApi) return asInstallation(api, appApi, options.app.installationId, signal);
  return [options.token === undefined ? anonymous(options) : await asToken(api, signal)];
}

function anonymous(options: Options): Finding {
  return {
    level: 'warning',
    subject: 'credential',
    message: `none: GitHub allows 60 requests an hour from this address, so polls are ${shortestPoll(options) / 60_000} minutes apart at least, and private repositories are not seen`,
    hint: 'Set app (one GitHub App per workspace), or a token.',
  };
}

const appAnswer = z.object({ installations_count: z.int().optional().catch(undefined) });

/** Its webhook has one address and one secret: an App that is installed elsewhere too cannot be this workspace's own. */
async function asInstallation(api: Api, appApi: Api, installationId: string, signal: AbortSignal): Promise<Finding[]> {
  const subject = 'credential';
  try {
    await api.get('/installation/repositories', { query: 'per_page=1', signal });
    const ok: Finding = { level: 'ok', subject, message: `GitHub App, installation ${installationId}` };
    const told = readable(appAnswer, readAnswer(await appApi.get('/app', { signal }), 'GET /app'));
    const count = told?.installations_count ?? 1;
    if (count <= 1) return [ok];
    const message = `the App is installed ${count} times, and all of its installations share one webhook`;
    return [ok, { level: 'warning', subject, message, hint: 'One GitHub App per workspace is the supported form.' }];
  } catch (thrown) {
    return [failed(subject, asSyncError(thrown))];
  }
}

const account = z.object({ login: z.string() });

async function asToken(api: Api, signal: AbortSignal): Promise<Finding> {
  try {
    const user = readable(account, readAnswer(await api.get('/user', { signal }), 'GET /user'));
    return tokenWorks(user ? `token of ${user.login}` : 'token');
  } catch (thrown) {
    const error = asSyncError(thrown);
    // Tokens of workflows and of Apps are good, and yet have no user.
    return error.code === 'forbidden' ? tokenWorks('token without a user') : failed('credential', error);
  }
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

function describeRepository(name: string, answer: HttpAnswer): Finding {
  const told = readable(metadata, readAnswer(answer, `GET /repos/${name}`));
  const { full_name, archived } = told ?? { full_name: name, archived: undefined };
  const isId = /^\d+$/.test(name);
  if (!isId && full_name.toLowerCase() !== name.toLowerCase())
    return renamed(name, full_name, `${full_name}, or the repository's id,`);
  if (archived) return { level: 'warning', subject: name, message: 'is archived: nothing changes there any more' };
  return { level: 'ok', subject: name, message: isId ? `${full_name} can be read` : 'can be read' };
}

async function describePatterns({ options, repositories }: CheckDeps, signal: AbortSignal): Promise<Finding[]> {
  const patterns = patternsOf(scopeOf(options));
  if (patterns.length === 0) return [];
  const subject = patterns.join(', ');
  try {
    const listed = await repositories.listed(signal);
    if (listed.length > 0) return [{ level: 'ok', subject, message: counted(listed.length) }];
    const hint = 'Check the names, what the credential may see, and exclude, archived and forks.';
    return [{ level: 'warning', subject, message: 'takes in no repository', hint }];
  } catch (thrown) {
    return [failed(subject, asSyncError(thrown))];
  }
}

function counted(count: number): string {
  return count === 1 ? '1 repository' : `${count} repositories`;
}

function limit({ headers }: HttpAnswer): Finding {
  const remaining = Number(headers['x-ratelimit-remaining'] ?? Number.NaN);
  const total = Number(headers['x-ratelimit-limit'] ?? Number.NaN);
  // Enterprise servers have no limit unless their owner sets one.
  if (Number.isNaN(remaining) || !(total > 0)) return { level: 'ok', subject: 'rate limit', message: 'none reported' };
  const message = `${remaining} of ${total} requests left in this hour`;
  if (remaining >= total / 10) return { level: 'ok', subject: 'rate limit', message };
  return { level: 'warning', subject: 'rate limit', message, hint: 'Poll less often, or give worksync its own App.' };
}
