import { z } from 'zod';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import type { Finding } from '../connector.ts';
import { accessFinding, type GitChecks } from '../kit/check.ts';
import { readable } from '../kit/payload.ts';
import { addressOf, namedIn, patternsOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { isAnonymous, type Options, scopeOf, shortestPoll } from './options.ts';
import { type Repositories, repositoryPath } from './repositories.ts';

/** Does not ask whose token it is: that would need a right which nothing else needs. */
export function createChecks(api: Api, options: Options, repositories: Repositories): GitChecks {
  const scope = scopeOf(options);
  return {
    credential: async () => [credential(options)],
    get: api.get,
    namedRepositories: () =>
      namedIn(scope).map((subject) => ({
        subject,
        path: repositoryPath(addressOf(subject, scope)),
        query: 'fields=uuid,full_name',
        describe: (told) => accessFinding(subject, readable(metadata, told)?.full_name ?? subject),
      })),
    lists: { names: ['pullrequests'], query: 'pagelen=1&fields=values.id' },
    patterns: patternsOf(scope),
    countMatches: async (signal) => (await repositories.listed(signal)).length,
    refusedLists: repositories.refused,
    limit: (headers) => limit(headers, options),
  };
}

function credential(options: Options): Finding {
  if (isAnonymous(options))
    return {
      level: 'warning',
      subject: 'credential',
      message: `none: Bitbucket allows 60 requests an hour from this address, so polls are ${Math.ceil(shortestPoll(options) / 60_000)} minutes apart or more, and worksync does not see private repositories`,
      hint: 'Set token (an access token of the repository, project or workspace).',
    };
  if (options.token !== undefined)
    return { level: 'ok', subject: 'credential', message: 'an access token: it has a limit of its own' };
  return {
    level: 'warning',
    subject: 'credential',
    message: 'an API token of a person: it shares its limit with everything else that person uses',
    hint: 'An access token of the repository, project or workspace has a limit of its own: set token instead.',
  };
}

const metadata = z.object({ full_name: z.string() });

/** Bitbucket tells only access tokens that little is left, and nobody how much. */
function limit(headers: HttpAnswer['headers'], options: Options): Finding {
  const subject = 'rate limit';
  const total = headers['x-ratelimit-limit'] ?? (isAnonymous(options) ? '60' : '1,000');
  if (headers['x-ratelimit-nearlimit']?.toLowerCase() !== 'true')
    return { level: 'ok', subject, message: `${total} requests in any hour` };
  return {
    level: 'warning',
    subject,
    message: `little is left of ${total} requests in any hour`,
    hint: 'Poll less often, or give worksync an access token of its own.',
  };
}
