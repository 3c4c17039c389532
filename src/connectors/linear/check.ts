import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { Finding } from '../connector.ts';
import { onOneLine } from '../kit/answers.ts';
import { failed } from '../kit/finding.ts';
import { addressOf } from '../kit/scope.ts';
import { rateOf } from './answers.ts';
import type { Api } from './api.ts';
import { type Options, scopeOf } from './options.ts';
import { WHO } from './queries.ts';
import { readTeam } from './teams.ts';

const who = z.object({
  viewer: z.object({ name: z.string().catch('without a name') }),
  organization: z.object({ id: z.string(), urlKey: z.string() }),
});

/** Proves the credential, the organisation, each team, and what is left of the limit. Reads only. */
export async function checkLinear(
  api: Api,
  options: Options,
  units: (signal: AbortSignal) => Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  try {
    const { data, answer } = await api.ask({ document: WHO, variables: {}, data: who, use: 'fetch', signal });
    findings.push({ level: 'ok', subject: 'credential', message: `of ${onOneLine(data.viewer.name, 100)}` });
    findings.push(organization(data.organization, options));
    findings.push(...(await teams(api, options, units, signal)), limit(answer));
  } catch (thrown) {
    findings.push(failed('credential', asSyncError(thrown)));
  }
  return findings;
}

function organization({ id, urlKey }: z.infer<typeof who>['organization'], options: Options): Finding {
  const subject = 'organisation';
  const name = onOneLine(urlKey, 60);
  if (id === options.organizationId) return { level: 'ok', subject, message: `${name} has the configured id` };
  return {
    level: 'error',
    subject,
    message: `the credential belongs to ${name}, whose id is ${onOneLine(id, 60)}`,
    hint: 'Write that id in the configuration, or use a credential of the organisation that is meant.',
  };
}

async function teams(
  api: Api,
  options: Options,
  units: (signal: AbortSignal) => Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const found = await units(signal);
  if (found.length === 0)
    return [
      {
        level: 'error',
        subject: 'teams',
        message: 'no team that the credential can see is meant by teams',
        hint: 'Private teams need a member of theirs. Correct teams, or use another credential.',
      },
    ];
  const findings: Finding[] = [];
  for (const unit of found) {
    try {
      const { key, name } = await readTeam(api, addressOf(unit, scopeOf(options)), signal);
      findings.push({ level: 'ok', subject: unit, message: `${key}, ${onOneLine(name, 100)}, can be read` });
    } catch (thrown) {
      findings.push(failed(unit, asSyncError(thrown)));
    }
  }
  return findings;
}

function limit({ headers }: HttpAnswer): Finding {
  const subject = 'rate limit';
  const rate = rateOf(headers);
  if (!rate) return { level: 'ok', subject, message: 'none reported' };
  const message = `${rate.remaining} of ${rate.limit} left`;
  if (rate.remaining >= rate.limit / 10) return { level: 'ok', subject, message };
  return {
    level: 'warning',
    subject,
    message,
    hint: 'Poll less often, or give worksync a credential of its own.',
  };
}
