import { RE2JS, RE2JSSyntaxException } from 're2js';

/** The text of a regular expression that has been checked. */
export type PatternText = string & { readonly sound: 'pattern' };

/** The text is no pattern. The message says why, for people. */
export class PatternError extends Error {}

/** A match: the whole text, its groups (`undefined` for one that took no part), and its index. */
export interface Match {
  readonly groups: readonly (string | undefined)[];
  readonly index: number;
}

export interface Pattern {
  test(text: string): boolean;
  /** Matches from left to right, at most `most`. */
  all(text: string, most: number): Match[];
}

const LONGEST_PATTERN = 256;
/** Instructions: a short text such as `((a?){50}){20}` may stand for very many, and each costs time on every character. */
const LARGEST_PROGRAM = 1_000;

/** Checks a regular expression in RE2's syntax. Throws `PatternError`. */
export function patternText(text: string): PatternText {
  compile(text);
  return text as PatternText;
}

/** Returns the number of groups of a checked pattern. */
export function groupCount(text: PatternText): number {
  return RE2JS.compile(text).groupCount();
}

/** Takes time in proportion to the text, whatever the text is. */
export function createPattern(text: PatternText): Pattern {
  return patternOver(compile(text));
}

/** `*` and `?` are wildcards; the whole text must match, in any case. */
export function createGlob(glob: string): Pattern {
  const body = glob.replace(/[*?]+|[^*?]+/g, (part) =>
    /^[*?]/.test(part) ? part.replaceAll('?', '.').replace(/\*+/g, '.*') : RE2JS.quote(part),
  );
  return patternOver(RE2JS.compile(`^(?:${body})$`, RE2JS.CASE_INSENSITIVE | RE2JS.DOTALL));
}

function compile(text: string): RE2JS {
  if (text.length === 0 || text.length > LONGEST_PATTERN)
    throw new PatternError(`a pattern has 1 to ${LONGEST_PATTERN} characters`);
  try {
    const compiled = RE2JS.compile(text);
    if (compiled.programSize() <= LARGEST_PROGRAM) return compiled;
  } catch (error) {
    if (error instanceof RE2JSSyntaxException) throw new PatternError(error.message, { cause: error });
    throw error;
  }
  throw new PatternError('this pattern repeats too much: use smaller counts');
}

function patternOver(compiled: RE2JS): Pattern {
  return {
    test: (text) => compiled.matcher(text).find(),
    all(text, most) {
      const matcher = compiled.matcher(text);
      const found: Match[] = [];
      while (found.length < most && matcher.find()) {
        const groups = Array.from({ length: matcher.groupCount() + 1 }, (_, at) => matcher.group(at) ?? undefined);
        found.push({ groups, index: matcher.start() });
      }
      return found;
    },
  };
}
