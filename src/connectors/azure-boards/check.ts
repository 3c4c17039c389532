import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Finding } from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { failed } from '../kit/finding.ts';
import { readable } from '../kit/json.ts';
import { addressOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import type { Directory } from './projects.ts';

const who = z.object({
  instanceId: z.string().toLowerCase(),
  authenticatedUser: z.object({ id: z.string(), providerDisplayName: z.string().catch('somebody') }),
});

/** Stands for nobody: what an unknown credential is taken for. */
const ANONYMOUS = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa';

/** Who the credential is; `worksync`'s own comments are known by that id. */
export async function whoAmI(api: Api, signal: AbortSignal): Promise<z.infer<typeof who> | undefined> {
  const { content } = await api.get('/_apis/connectionData', { 'api-version': '7.1-preview' }, signal);
  return readable(who, content);
}

/** Proves the credential, the organisation, and each project. Reads only. */
export async function checkAzure(
  api: Api,
  options: Options,
  directory: Directory,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  try {
    const found = await whoAmI(api, signal);
    const about = [credential(found), organization(found?.instanceId, options)];
    if (about.some(({ level }) => level === 'error')) return about;
    return [...about, ...(await projects(api, options, directory, signal))];
  } catch (thrown) {
    return [failed('credential', asSyncError(thrown))];
  }
}

function credential(found: z.infer<typeof who> | undefined): Finding {
  const subject = 'credential';
  if (found && found.authenticatedUser.id !== ANONYMOUS)
    return { level: 'ok', subject, message: `of ${onOneLine(found.authenticatedUser.providerDisplayName, 100)}` };
  return {
    level: 'warning',
    subject,
    message: 'none that Azure DevOps knows: only public projects are read',
    hint: 'Set token: a personal access token with the scope Work Items (Read).',
  };
}

function organization(id: string | undefined, { organizationId }: Options): Finding {
  const subject = 'organisation';
  if (id === undefined) return { level: 'warning', subject, message: 'does not tell its id' };
  if (id === organizationId) return { level: 'ok', subject, message: 'has the configured id' };
  return {
    level: 'error',
    subject,
    message: `has the id ${onOneLine(id, 60)}, not the configured one`,
    hint: 'Write that one in the configuration, or correct the organisation. Work items are known by it.',
  };
}

async function projects(
  api: Api,
  options: Options,
  directory: Directory,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const units = await directory.units(signal);
  if (units.length === 0)
    return [
      {
        level: 'error',
        subject: 'projects',
        message: 'no project that the credential can see is meant by projects',
        hint: 'Give its account access to them, or correct projects.',
      },
    ];
  const findings: Finding[] = [];
  for (const unit of units) {
    try {
      const { id, name } = await directory.project(addressOf(unit, scopeOf(options)), signal);
      // A project may be seen by a credential that may not read its work items.
      await api.get(`/${id}/_apis/wit/workitemtypes`, {}, signal);
      findings.push({ level: 'ok', subject: unit, message: `${onOneLine(name, 100)} can be read` });
    } catch (thrown) {
      findings.push(failed(unit, asSyncError(thrown)));
    }
  }
  return findings;
}
