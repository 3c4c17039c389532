import { z } from 'zod';
import { withoutEnd } from '../lib/text.ts';
import { DURATION, parseDuration } from './duration.ts';
import { parseSchedule } from './schedule.ts';

/** Values that several keys share, as zod schemas. Each reads text of the file and yields what the program uses. */

const EXPECTED_DURATION = 'expected a duration such as 90s, 5m, 1h or 14d';

const milliseconds = z
  .string({ error: EXPECTED_DURATION })
  .regex(DURATION, EXPECTED_DURATION)
  .transform((text) => parseDuration(text) as number);

/** A duration; yields milliseconds. */
export function duration(standard: string, description: string) {
  return milliseconds.prefault(standard).meta({ title: 'duration', description });
}

/** A duration that need not be given; its description says what holds where it is absent. */
export function optionalDuration(description: string) {
  return milliseconds.optional().meta({ title: 'duration', description });
}

/** When something is done again: a duration, a cron expression, or `off`. */
export function schedule(meta: { readonly description: string; readonly default?: string }) {
  return z
    .string({ error: 'expected a duration such as 5m, a cron expression, or off' })
    .meta({ title: 'duration, cron expression or `off`', ...meta })
    .transform((text, context) => {
      const result = parseSchedule(text);
      if (typeof result !== 'object' || !('problem' in result)) return result;
      context.addIssue({ code: 'custom', message: result.problem });
      return z.NEVER;
    });
}

/** Name of a workspace or a connection: it appears in addresses and file names. */
export const name = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,39}$/, 'expected lower-case letters, digits and hyphens, at most 40 of them');

export const mirror = z
  .enum(['auto', 'record', 'off'])
  .describe(
    '`auto`: pull requests are recorded in the workspace, if it has a route for that. `record`: the same, and a missing route is reported as a problem. `off`: they are not recorded. Links to tasks are made in any case.',
  );

const SHORTEST_SECRET = 16;

const secret = z
  .string()
  .min(
    SHORTEST_SECRET,
    `a webhook secret has at least ${SHORTEST_SECRET} characters; use the one from the provider, or make one with: openssl rand -hex 32`,
  );

/** One secret, or two while one is being replaced by the next. */
export function liveSecrets(description: string) {
  return z
    .union([secret, z.array(secret).max(2, 'at most two secrets: the current one and the next')])
    .prefault([])
    .transform((value): readonly string[] => (typeof value === 'string' ? [value] : value))
    .meta({
      title: 'text, or a list of at most two',
      description: `${description}, 16 characters or more; two while one replaces the other.`,
    });
}

const anyAddress = z.string().transform((text, context) => {
  const problem = addressProblem(text);
  if (problem === undefined) return withoutEnd(text, '/');
  context.addIssue({ code: 'custom', message: problem });
  return z.NEVER;
});

/** Where the workspace's pages are; yields a list. */
export const webAddresses = z
  .union([anyAddress, z.array(anyAddress).max(10)])
  .prefault([])
  .transform((value): readonly string[] => [value].flat())
  .meta({
    title: 'address, or a list of them',
    description:
      'Address where people open its tasks, if it differs from that of the API: worksync recognises task addresses below it in texts.',
  });

/** Address of an API; yields it without a slash at the end. */
export const address = anyAddress.meta({
  title: 'address',
  description: 'Address of the workspace API. Absent: the embedded reference service.',
});

function addressProblem(text: string): string | undefined {
  if (!URL.canParse(text)) return 'expected an address such as https://work.example.com/api/v1';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'expected an address with https:// or http://';
  if (url.username !== '' || url.password !== '') return 'an address must not contain a user or password; use apiKey';
  if (url.search !== '' || url.hash !== '') return 'an address must not contain ? or #';
  return undefined;
}
