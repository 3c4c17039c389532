import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { Finding } from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { failed } from '../kit/finding.ts';
import { readable } from '../kit/json.ts';
import type { Options } from './options.ts';
import type { Lists } from './poll.ts';
import { sweepIssues } from './poll.ts';

/** Proves the token, the organisation and each project. Reads only. */
export async function checkSentry(lists: Lists, signal: AbortSignal): Promise<readonly Finding[]> {
  const findings = [await organizationOf(lists, signal)];
  if (findings.some(({ level }) => level === 'error')) return findings;
  try {
    const projects = await lists.directory.projects(signal);
    if (projects.length === 0) findings.push(nothing);
    for (const project of projects) findings.push(await projectOf(lists, project, signal));
  } catch (thrown) {
    findings.push(failed('projects', asSyncError(thrown)));
  }
  return findings;
}

const nothing: Finding = {
  level: 'error',
  subject: 'projects',
  message: 'no project that the token can see is meant by projects',
  hint: 'Give the integration the right project:read, or correct projects.',
};

const answered = z.object({ name: z.string().catch('without a name') });

async function organizationOf({ api, options }: Pick<Lists, 'api' | 'options'>, signal: AbortSignal): Promise<Finding> {
  const subject = 'organisation';
  try {
    const data = readable(answered, (await api.get(pathOf(options), signal)).content);
    const name = onOneLine(data?.name ?? options.organization, 100);
    if (options.token !== undefined) return { level: 'ok', subject, message: `${name} can be read` };
    return { level: 'warning', subject, message: `${name} can be read without a token`, hint: 'Set token.' };
  } catch (thrown) {
    return failed(subject, asSyncError(thrown));
  }
}

function pathOf({ organization }: Options): string {
  return `/organizations/${organization}/`;
}

/** A token may see a project and not its issues. */
async function projectOf(lists: Lists, project: string, signal: AbortSignal): Promise<Finding> {
  try {
    await sweepIssues(lists, { unit: project, page: undefined }, signal);
    return { level: 'ok', subject: project, message: 'its issues can be read' };
  } catch (thrown) {
    return failed(project, asSyncError(thrown));
  }
}
