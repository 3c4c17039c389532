import type { Names } from '../../model/names.ts';
import { isPattern, matches } from './patterns.ts';

/** Which repositories or projects of a vendor a connection follows. Names are paths: `acme/api`. */
export interface Scope {
  /** Names, patterns (`acme/*`, `acme/api-*`), or ids, which survive renaming. `archived` and `forks` limit only patterns. */
  readonly include: readonly string[];
  /** Names, patterns or ids; they win over patterns, and over names too. */
  readonly exclude: readonly string[];
  /** Whether patterns take in what is archived. */
  readonly archived: boolean;
  /** Whether patterns take in forks. */
  readonly forks: boolean;
  /** The ids that the names among the entries are bound to; absent: no name is bound. */
  readonly names?: Names | undefined;
}

/** Options as a connector gets them from the daemon: as configured, and with what is known of the names in them. */
export interface WithNames {
  readonly names?: Names | undefined;
}

/** A repository or project as a payload describes it; an absent flag counts as false. */
export interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly archived?: boolean | undefined;
  readonly fork?: boolean | undefined;
}

/**
 * Decides by what a payload tells, and by the ids that names are bound to at this moment. Each candidate is also news of what
 * its name leads to, so the name book hears of it.
 */
export function inScope(candidate: Candidate, scope: Scope): boolean {
  scope.names?.report(candidate);
  if (scope.exclude.some((entry) => isExcluded(entry, candidate))) return false;
  return scope.include.some((entry) => isMeant(entry, candidate, scope));
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

/** The address by which to ask the vendor for an entry: the id that the entry is bound to, else its name. */
export function addressOf(entry: string, { names }: WithNames): string {
  return names?.addressOf(entry) ?? entry;
}

function isExcluded(entry: string, { id, name }: Candidate): boolean {
  return entry === id || matches(entry, name);
}

/** A bound name matches only what has that id, whatever it is called now. */
function isMeant(entry: string, candidate: Candidate, scope: Scope): boolean {
  const { id, name } = candidate;
  if (entry === id) return true;
  if (isPattern(entry)) return matches(entry, name) && isWanted(candidate, scope);
  const bound = scope.names?.idOf(entry);
  return bound === undefined ? matches(entry, name) : bound === id;
}

function isWanted({ archived, fork }: Candidate, scope: Scope): boolean {
  return (scope.archived || archived !== true) && (scope.forks || fork !== true);
}
