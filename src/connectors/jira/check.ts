import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Finding } from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { absent } from '../kit/fields.ts';
import { failed, renamed } from '../kit/finding.ts';
import { readable } from '../kit/json.ts';
import { addressOf } from '../kit/scope.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import { readProject } from './projects.ts';
import { projectIs, search } from './search.ts';

/** Proves the site's id, the credential, and each project. Reads only. */
export async function checkJira(
  api: Api,
  options: Options,
  units: (signal: AbortSignal) => Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const findings = [
    await site(api, options, signal),
    options.token === undefined ? anonymous : await credential(api, signal),
  ];
  if (findings.some(({ level }) => level === 'error')) return findings;
  try {
    const found = await units(signal);
    if (found.length === 0) findings.push(nothing);
    for (const unit of found) findings.push(await projectOf(api, unit, addressOf(unit, scopeOf(options)), signal));
  } catch (thrown) {
    findings.push(failed('projects', asSyncError(thrown)));
  }
  return findings;
}

const nothing: Finding = {
  level: 'error',
  subject: 'projects',
  message: 'no project that the account can see is meant by projects',
  hint: 'Give the account the permission "Browse projects", or correct projects.',
};

const tenant = z.object({ cloudId: z.string().toLowerCase() });

async function site(api: Api, { cloudId }: Options, signal: AbortSignal): Promise<Finding> {
  const subject = 'site';
  try {
    const data = readable(tenant, await api.tenant(signal));
    if (!data) return { level: 'warning', subject, message: 'does not tell its cloud id' };
    if (data.cloudId === cloudId) return { level: 'ok', subject, message: 'has the configured cloud id' };
    return {
      level: 'error',
      subject,
      message: `has the cloud id ${onOneLine(data.cloudId, 60)}, not the configured one`,
      hint: 'Write that one in the configuration, or correct the site. Issues are known by it.',
    };
  } catch (thrown) {
    return failed(subject, asSyncError(thrown));
  }
}

const anonymous: Finding = {
  level: 'warning',
  subject: 'credential',
  message: 'none: only what anybody may see is read',
  hint: 'Set email and token.',
};

const account = z.object({ displayName: z.string().catch('without a name'), timeZone: absent(z.string()) });

async function credential(api: Api, signal: AbortSignal): Promise<Finding> {
  try {
    const data = readable(account, (await api.get('/rest/api/3/myself', {}, signal)).content);
    const { displayName, timeZone = 'not told' } = data ?? { displayName: 'somebody' };
    // Times are asked for as milliseconds, so the zone changes nothing; people look for it when times seem wrong.
    return { level: 'ok', subject: 'credential', message: `${displayName}, time zone ${timeZone}` };
  } catch (thrown) {
    return failed('credential', asSyncError(thrown));
  }
}

/** A project may be seen by an account that may not search it. */
async function projectOf(api: Api, unit: string, address: string, signal: AbortSignal): Promise<Finding> {
  try {
    const { id, key, archived } = await readProject(api, address, signal);
    await search(api, { jql: `${projectIs(address)} ORDER BY created ASC`, fields: 'id', size: 1 }, signal);
    if (archived) return { level: 'warning', subject: unit, message: 'is archived: nothing changes there any more' };
    if (unit === id || unit === key) return { level: 'ok', subject: unit, message: `${key} can be read` };
    return renamed(unit, key, `${key}, or the project's number ${id},`);
  } catch (thrown) {
    return failed(unit, asSyncError(thrown));
  }
}
