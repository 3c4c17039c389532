import { z } from 'zod';
import type { Finding } from '../connector.ts';
import { type About, failedFinding, findingsOf } from '../kit/check.ts';
import { readable } from '../kit/payload.ts';
import { onOneLine } from '../kit/refusal.ts';
import type { Rest } from '../kit/rest.ts';
import type { Options } from './options.ts';
import type { Status } from './schema.ts';
import { readStatuses } from './statuses.ts';

/** Proves the key and the statuses. A wrong key is no error elsewhere: Redmine then answers as to anybody. */
export async function about(api: Rest, options: Options, signal: AbortSignal): Promise<About> {
  const first = options.apiKey === undefined ? [anonymous] : await credential(api, signal);
  if (first.some(({ level }) => level === 'error')) return { first };
  try {
    return { first, besides: statusesOf(await readStatuses(api, signal), options) };
  } catch (thrown) {
    return { first: [...first, failedFinding('address', thrown)] };
  }
}

const anonymous: Finding = {
  level: 'warning',
  subject: 'credential',
  message: 'none: worksync reads only what is public',
  hint: 'Set apiKey.',
};

const user = z.object({ user: z.object({ login: z.string().catch('without a login') }) });

function credential(api: Rest, signal: AbortSignal) {
  return findingsOf('credential', async () => {
    const data = readable(user, (await api.get('/users/current.json', {}, signal)).content);
    const message = `of ${onOneLine(data?.user.login ?? 'somebody', 100)}`;
    return [{ level: 'ok', subject: 'credential', message }];
  });
}

function statusesOf(found: readonly Status[], { inProgress, completedStatus }: Options): readonly Finding[] {
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
      message: 'none counts as closed, so no issue is ever done',
      hint: 'Let an administrator mark a status as "Issue closed".',
    });
  if (completedStatus !== undefined && !closed.some(({ name }) => name.toLowerCase() === completedStatus.toLowerCase()))
    findings.push({
      level: 'error',
      subject,
      message: `completedStatus names ${onOneLine(completedStatus, 100)}, which is no closed status there`,
      hint: `Write one of: ${onOneLine(closed.map(({ name }) => name).join(', '), 400)}.`,
    });
  return findings.length > 0 ? findings : [{ level: 'ok', subject, message: `${closed.length} count as closed` }];
}
