import { z } from 'zod';
import { parseCron } from '../lib/cron.ts';
import { PatternError, type PatternText, patternText } from '../lib/pattern.ts';
import { DURATION, parseDuration } from '../lib/quantities.ts';
import type { Schedule } from '../lib/scheduler.ts';
import { withoutEnd } from '../lib/text.ts';

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

/** An optional duration, whose description says what its absence means. */
export function optionalDuration(description: string) {
  return milliseconds.optional().meta({ title: 'duration', description });
}

/** The times of a repeated job: a duration, a cron expression, or `off`. */
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

/** The addresses of the workspace's pages; yields a list. */
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

const SHORTEST = 10_000;

/** Parses a schedule; returns the problem of an invalid text. */
export function parseSchedule(text: string): Schedule | { readonly problem: string } {
  if (text === 'off') return 'off';
  const everyMs = parseDuration(text);
  if (everyMs !== undefined) return everyMs < SHORTEST ? { problem: 'the shortest interval is 10s' } : { everyMs };
  return parseCron(text) ? { cron: text } : { problem: 'expected a duration such as 5m, a cron expression, or off' };
}

/** One hour in minutes, and one more: they contain the smallest gap. */
const MOMENTS = 61;

/** Returns the shortest pause between two moments of a schedule, milliseconds. */
export function shortestPause(schedule: Exclude<Schedule, 'off'>): number {
  if ('everyMs' in schedule) return schedule.everyMs;
  const times = parseCron(schedule.cron);
  let shortest = Number.POSITIVE_INFINITY;
  let at = times?.after(0);
  for (let count = 1; count < MOMENTS && at !== undefined; count++) {
    const next = times?.after(at);
    if (next !== undefined) shortest = Math.min(shortest, next - at);
    at = next;
  }
  return shortest;
}

export const LONGEST_GLOB = 256;

/** A regular expression in RE2's syntax, which takes linear time on any text. */
export function pattern(description: string) {
  return z
    .string()
    .transform((text, context): PatternText => {
      try {
        return patternText(text);
      } catch (error) {
        if (!(error instanceof PatternError)) throw error;
        context.addIssue({ code: 'custom', message: error.message });
        return z.NEVER;
      }
    })
    .meta({ title: 'regular expression (RE2)', description });
}

/** One value or a list of them; yields a list. */
export function oneOrMore<Each extends z.ZodType>(each: Each, title: string, description: string) {
  return z
    .union([each, z.array(each).min(1)])
    .transform((value) => [value].flat() as z.output<Each>[])
    .optional()
    .meta({ title, description });
}

const glob = z.string().min(1).max(LONGEST_GLOB);
export const globs = (description: string) =>
  oneOrMore(glob, 'text or list of texts', `${description} Any of them; \`*\` and \`?\` are wildcards.`);

const EXPECTED_TIME = 'expected a date, a time such as 2026-03-01T09:00:00Z, or "always"';

/** A time as epoch milliseconds; `always` is 0. */
export function since(description: string) {
  return z
    .union(
      [
        z.literal('always').transform(() => 0),
        z
          .string()
          .refine(
            (text) => !Number.isNaN(Date.parse(text)) && z.iso.date().safeParse(text.slice(0, 10)).success,
            EXPECTED_TIME,
          )
          .transform((text) => Date.parse(text)),
      ],
      { error: EXPECTED_TIME },
    )
    .optional()
    .meta({ title: 'date, time or `always`', description });
}
