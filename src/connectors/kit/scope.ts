import { isPattern, matches } from './patterns.ts';

/** Which repositories or projects of a vendor a connection follows. Names are paths: `acme/api`. */
export interface Scope {
  /** Names, patterns (`acme/*`, `acme/api-*`), or ids, which survive renaming. One that is named so is followed always. */
  readonly include: readonly string[];
  /** Names, patterns or ids; they win over patterns, and over names too. */
  readonly exclude: readonly string[];
  /** Whether patterns take in what is archived. */
  readonly archived: boolean;
  /** Whether patterns take in forks. */
  readonly forks: boolean;
}

/** A repository or project as a payload tells of it; what it does not tell counts as not so. */
export interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly archived?: boolean | undefined;
  readonly fork?: boolean | undefined;
}

/** Pure, so that webhooks are judged by what they carry alone, now and when they are looked at again. */
export function inScope(candidate: Candidate, scope: Scope): boolean {
  if (scope.exclude.some((entry) => isMeant(entry, candidate))) return false;
  return scope.include.some((entry) => isMeant(entry, candidate) && (!isPattern(entry) || isWanted(candidate, scope)));
}

/** Entries that need the vendor's list before they can be polled. */
export function patternsOf({ include }: Scope): readonly string[] {
  return include.filter(isPattern);
}

/** Entries that name one repository or project each, and are not excluded by the very same word or a pattern. */
export function namedIn({ include, exclude }: Scope): readonly string[] {
  const named = include.filter((entry) => !isPattern(entry));
  return named.filter((entry) => !exclude.some((other) => matches(other, entry)));
}

function isMeant(entry: string, { id, name }: Candidate): boolean {
  return entry === id || matches(entry, name);
}

function isWanted({ archived, fork }: Candidate, scope: Scope): boolean {
  return (scope.archived || archived !== true) && (scope.forks || fork !== true);
}
