import { z } from 'zod';
import { PatternError, type PatternText, patternText } from '../lib/pattern.ts';

/** The kinds of fields that several rules of the configuration share. */

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
