import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Finding } from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { failed } from '../kit/finding.ts';
import { readable } from '../kit/json.ts';
import type { Api } from './api.ts';
import { listIssues } from './listing.ts';
import type { Options } from './options.ts';
import { readProject } from './projects.ts';
import type { Status } from './schema.ts';
import { readStatuses } from './statuses.ts';

/** Proves the key, the statuses and each project. Reads only. */
export async function checkRedmine(
  api: Api,
  options: Options,
  units: (signal: AbortSignal) => Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const findings = [options.apiKey === undefined ? anonymous : await credential(api, signal)];
  // A wrong key is no error elsewhere: Redmine then answers as to anybody.
  if (findings.some(({ level }) => level === 'error')) return findings;
  try {
    findings.push(...statusesOf(await readStatuses(api, signal), options));
    const found = await units(signal);
    if (found.length === 0) findings.push(nothing);
    for (const unit of found) findings.push(await projectOf(api, unit, signal));
  } catch (thrown) {
    findings.push(failed('address', asSyncError(thrown)));
  }
  return findings;
}

const anonymous: Finding = {
  level: 'warning',
  subject: 'credential',
  message: 'none: only what anybody may see is read',
  hint: 'Set apiKey.',
};

const nothing: Finding = {
  level: 'error',
  subject: 'projects',
  message: 'no project that the user can see is meant by projects',
  hint: 'Give the user a role in the projects, or correct projects.',
};

const user = z.object({ user: z.object({ login: z.string().catch('without a login') }) });

async function credential(api: Api, signal: AbortSignal): Promise<Finding> {
  try {
    const data = readable(user, (await api.get('/users/current.json', {}, signal)).content);
    return { level: 'ok', subject: 'credential', message: `of ${onOneLine(data?.user.login ?? 'somebody', 100)}` };
  } catch (thrown) {
    return failed('credential', asSyncError(thrown));
  }
}

function statusesOf(found: readonly Status[], { inProgress, doneStatus }: Options): readonly Finding[] {
  const subject = 'statuses';
  const names = new Set(found.map(({ name }) => name.toLowerCase()));
  const closed = found.filter(({ is_closed }) => is_closed);
  const findings: Finding[] = inProgress
    .filter((name) => !names.has(name.toLowerCase()))
    .map((name) => ({
      level: 'warning',
      subject,
      message: `inProgress names ${onOneLine(name, 100)}, which is no status there`,
      hint: `Write some of: ${onOneLine(found.map(({ name: each }) => each).join(', '), 400)}.`,
    }));
  if (closed.length === 0)
    findings.push({
      level: 'warning',
      subject,
      message: 'none counts as closed, so nothing is ever done',
      hint: 'Let an administrator mark a status as "Issue closed".',
    });
  if (doneStatus !== undefined && !closed.some(({ name }) => name.toLowerCase() === doneStatus.toLowerCase()))
    findings.push({
      level: 'error',
      subject,
      message: `doneStatus names ${onOneLine(doneStatus, 100)}, which is no closed status there`,
      hint: `Write one of: ${onOneLine(closed.map(({ name }) => name).join(', '), 400)}.`,
    });
  return findings.length > 0 ? findings : [{ level: 'ok', subject, message: `${closed.length} count as closed` }];
}

/** A project may be seen by a user who may not see its issues, or have no issues at all. */
async function projectOf(api: Api, unit: string, signal: AbortSignal): Promise<Finding> {
  try {
    const { identifier, name = identifier } = await readProject(api, unit, signal);
    await listIssues(api, { unit, filter: { status_id: 'open' }, order: 'up' }, signal);
    return { level: 'ok', subject: unit, message: `${onOneLine(name, 100)} can be read` };
  } catch (thrown) {
    return failed(unit, asSyncError(thrown));
  }
}
