import type { Names } from '../../model/names.ts';
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
  /** What the names among the entries are bound to; absent: to nothing. */
  readonly names?: Names | undefined;
}

/** Options as a connector gets them from the daemon: as configured, and with what is known of the names in them. */
export interface WithNames {
  readonly names?: Names | undefined;
}

/** A repository or project as a payload tells of it; what it does not tell counts as not so. */
export interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly archived?: boolean | undefined;
  readonly fork?: boolean | undefined;
}

/**
 * Webhooks are judged by what they carry and by what names are bound to, now and when they are looked at again. What is
 * judged is also news of what a name leads to.
 */
export function inScope(candidate: Candidate, scope: Scope): boolean {
  scope.names?.told(candidate);
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

/** How the vendor is asked for what an entry names: by the id that it is bound to, else by its name. */
export function addressOf(entry: string, { names }: WithNames): string {
  return names?.addressOf(entry) ?? entry;
}

function isExcluded(entry: string, { id, name }: Candidate): boolean {
  return entry === id || matches(entry, name);
}

/** A name that is bound means what has that id, whatever it is called, and nothing else. */
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
