import { z } from 'zod';
import { asSyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Finding } from '../connector.ts';
import { accessFinding, expiryFinding, failedFinding, type GitChecks, limitFinding } from '../kit/check.ts';
import { readAnswer, readable } from '../kit/payload.ts';
import { addressOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import { offIn } from './projects.ts';
import { type Place, pathOf, placesOf } from './units.ts';

export function createChecks(api: Api, options: Options, clock: Clock): GitChecks {
  return {
    credential: async (signal) => [
      options.token === undefined ? anonymous : await credential(api, clock.now(), signal),
    ],
    get: api.get,
    namedRepositories: () =>
      placesOf(options).map((place) => {
        const { kind, name: subject } = place;
        const describe = (told: unknown) => describePlace(place, told);
        if (kind === 'group') return { subject, path: pathOf(place), query: 'with_projects=false', describe };
        return { subject, path: pathOf({ kind, name: addressOf(subject, scopeOf(options)) }), describe };
      }),
    offIn,
    lists: {
      names: options.issues ? ['merge_requests', 'issues'] : ['merge_requests'],
      query: 'state=all&scope=all&per_page=1',
    },
    // A pattern makes a group in `namedRepositories`, which contains all projects below it.
    patterns: [],
    countMatches: async () => 0,
    limit: (headers) => limitFinding(headers, 'ratelimit', '', 'Poll less often, or give worksync a token of its own.'),
  };
}

const anonymous: Finding = {
  level: 'warning',
  subject: 'credential',
  message: 'none: worksync reads only public projects',
  hint: 'Set token: a project, group or personal access token with the scope read_api.',
};

const accessToken = z.object({
  name: z.string().catch('without a name'),
  scopes: z.array(z.string()).optional().catch(undefined),
  expires_at: z.iso.date().nullable().catch(null),
});

async function credential(api: Api, now: number, signal: AbortSignal): Promise<Finding> {
  const path = '/personal_access_tokens/self';
  try {
    const token = readable(accessToken, readAnswer(await api.get(path, { signal }), `GET ${path}`));
    return token ? describeToken(token, now) : unknownToken;
  } catch (thrown) {
    // Servers before 15.5 have no such address; there the projects, which `check` reads next, prove the token.
    return asSyncError(thrown).code === 'not_found' ? unknownToken : failedFinding('credential', thrown);
  }
}

const unknownToken: Finding = {
  level: 'ok',
  subject: 'credential',
  message: 'a token, about which GitLab tells nothing',
};

function describeToken({ name, scopes, expires_at }: z.infer<typeof accessToken>, now: number): Finding {
  const subject = 'credential';
  if (scopes && !scopes.includes('read_api') && !scopes.includes('api'))
    return {
      level: 'error',
      subject,
      message: `the token "${name}" has the scopes ${scopes.join(', ') || 'none'}, so it may not read the API`,
      hint: 'Create a token with the scope read_api.',
    };
  const end = expires_at !== null && { at: Date.parse(expires_at), shown: expires_at };
  const soon = end && expiryFinding(`the token "${name}"`, end, now);
  if (soon) return soon;
  return { level: 'ok', subject, message: `token "${name}"${expires_at === null ? '' : `, until ${expires_at}`}` };
}

const metadata = z.object({
  path_with_namespace: z.string().optional().catch(undefined),
  full_path: z.string().optional().catch(undefined),
  archived: z.boolean().optional().catch(undefined),
});

function describePlace({ kind, name }: Place, told: unknown): Finding {
  const said = readable(metadata, told) ?? {};
  const path = said.path_with_namespace ?? said.full_path ?? name;
  const isOther = !/^\d+$/.test(name) && path.toLowerCase() !== name.toLowerCase();
  if (kind === 'group' && isOther) return renamedGroup(name, path);
  return accessFinding(name, path, { archived: said.archived, write: `${path}, or the project's number,` });
}

/** worksync follows a group as a pattern over paths, and binds no id to a pattern. */
function renamedGroup(subject: string, path: string): Finding {
  return {
    level: 'warning',
    subject,
    message: `is called ${path} now; worksync follows groups by their path, so it follows nothing of this group`,
    hint: `Write ${path} in the configuration.`,
  };
}
