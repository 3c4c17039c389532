import { z } from 'zod';
import { asSyncError, type SyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { Finding } from '../connector.ts';
import { readAnswer } from '../kit/json.ts';
import type { Api } from './api.ts';
import { type Options, shortestPoll } from './options.ts';

/** Proves the credential, each repository, and what is left of the limit. Reads only. */
export async function checkGithub(api: Api, options: Options, signal: AbortSignal): Promise<readonly Finding[]> {
  const findings = [await credential(api, options, signal)];
  let last: HttpAnswer | undefined;
  for (const name of options.repositories) {
    try {
      last = await api.get(`/repos/${name}`, { signal });
      findings.push(describeRepository(name, last));
      // Metadata is readable with any right; the list is not.
      last = await api.get(`/repos/${name}/pulls`, { query: 'state=all&per_page=1', signal });
    } catch (thrown) {
      findings.push(failed(name, asSyncError(thrown)));
    }
  }
  return last ? [...findings, limit(last)] : findings;
}

async function credential(api: Api, options: Options, signal: AbortSignal): Promise<Finding> {
  if (options.app) return asInstallation(api, options.app.installationId, signal);
  return options.token === undefined ? anonymous(options) : asToken(api, signal);
}

function anonymous(options: Options): Finding {
  return {
    level: 'warning',
    subject: 'credential',
    message: `none: GitHub allows 60 requests an hour from this address, so polls are ${shortestPoll(options) / 60_000} minutes apart at least, and private repositories are not seen`,
    hint: 'Set app (one GitHub App per workspace), or a token.',
  };
}

async function asInstallation(api: Api, installationId: string, signal: AbortSignal): Promise<Finding> {
  try {
    await api.get('/installation/repositories', { query: 'per_page=1', signal });
    return { level: 'ok', subject: 'credential', message: `GitHub App, installation ${installationId}` };
  } catch (thrown) {
    return failed('credential', asSyncError(thrown));
  }
}

const account = z.object({ login: z.string() });

async function asToken(api: Api, signal: AbortSignal): Promise<Finding> {
  try {
    const user = account.safeParse(readAnswer(await api.get('/user', { signal }), 'GET /user'));
    return tokenWorks(user.success ? `token of ${user.data.login}` : 'token');
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
  const { full_name, archived } = metadata.catch({ full_name: name }).parse(readAnswer(answer, `GET /repos/${name}`));
  if (full_name.toLowerCase() !== name.toLowerCase())
    return {
      level: 'warning',
      subject: name,
      message: `is called ${full_name} now; its webhooks are ignored under the old name`,
      hint: `Write ${full_name} in the configuration.`,
    };
  if (archived) return { level: 'warning', subject: name, message: 'is archived: nothing changes there any more' };
  return { level: 'ok', subject: name, message: 'can be read' };
}

function failed(subject: string, error: SyncError): Finding {
  if (error.code === 'aborted') throw error;
  return { level: 'error', subject, message: error.message, hint: error.hint };
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
