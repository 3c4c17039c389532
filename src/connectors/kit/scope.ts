import type { ErrorCode } from '../../model/errors/codes.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { Names } from '../../model/names.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection } from '../connector.ts';
import { createListing } from './cached-reads.ts';

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

/**
 * Names with wildcards: `*` stands for any run of characters within one part of a path, `**` for any run of parts.
 * Case does not count. Time grows with the length of both, whatever they contain: both come from outside.
 */
export function matches(pattern: string, name: string): boolean {
  const tokens = pattern.toLowerCase().match(/\*\*|./gsu) ?? [];
  let reached = new Set(skipStars(tokens, 0));
  for (const character of name.toLowerCase()) {
    const next = new Set<number>();
    for (const at of reached) for (const to of step(tokens, at, character)) next.add(to);
    reached = next;
  }
  return reached.has(tokens.length);
}

export function isPattern(name: string): boolean {
  return name.includes('*');
}

/** Where one character leads from a place in the pattern. */
function step(tokens: readonly string[], at: number, character: string): readonly number[] {
  const token = tokens[at];
  const stays = token === '**' || (token === '*' && character !== '/');
  if (stays) return skipStars(tokens, at);
  return token === character ? skipStars(tokens, at + 1) : [];
}

/** A star may stand for nothing. */
function skipStars(tokens: readonly string[], from: number): readonly number[] {
  const places = [from];
  for (let at = from; tokens[at]?.startsWith('*'); at++) places.push(at + 1);
  return places;
}

interface Followed<Container> {
  readonly scope: Scope;
  readonly clock: Clock;
  /** The lists that together contain everything that patterns can match. */
  readonly lists: readonly ContainerList<Container>[];
  candidate(container: Container): Candidate;
  unitOf(candidate: Candidate): string;
}

interface ContainerList<Container> {
  /** For people, as `acme/*`. */
  readonly name: string;
  read(signal: AbortSignal): Promise<readonly Container[]>;
}

/** What the name of a unit begins with that stands for a list which the vendor refused. */
const REFUSED_LIST = 'list:';

/** Whether a unit stands for a list that the vendor refused. */
export function isRefusedList(unit: string): boolean {
  return unit.startsWith(REFUSED_LIST);
}

/**
 * What a connection follows. Where there are no patterns, this sends no request.
 *
 * A list that the vendor refuses does not keep the rest from being followed: it becomes a unit of its own, which cannot be read.
 */
export function createScopeResolver<Container>({ scope, clock, lists, candidate, unitOf }: Followed<Container>) {
  const named = namedIn(scope);
  const names = new Set(named.map((name) => name.toLowerCase()));
  const isAlone = named.length === 0 && lists.length === 1;
  let refused: ReadonlyMap<string, SyncError> = new Map();

  async function readLists(signal: AbortSignal): Promise<readonly Container[]> {
    const found: Container[] = [];
    const failed = new Map<string, SyncError>();
    for (const list of lists) {
      try {
        found.push(...(await list.read(signal)));
      } catch (thrown) {
        const error = asSyncError(thrown);
        if (isAlone || !REFUSALS.has(error.code)) throw thrown;
        failed.set(REFUSED_LIST + list.name, error);
      }
    }
    refused = failed;
    return found;
  }

  const listing = createListing(clock, async (signal) => {
    const taken = (await readLists(signal)).map(candidate).filter((each) => inScope(each, scope));
    const others = taken.filter(({ id, name }) => !names.has(id.toLowerCase()) && !names.has(name.toLowerCase()));
    return [...new Map(others.map((each) => [each.id, each])).values()];
  });
  /** What patterns take in, without what the configuration names besides. */
  const listed = async (signal: AbortSignal) => (patternsOf(scope).length === 0 ? [] : listing(signal));
  /** Configured names are units themselves; what a pattern took in has a unit that a new name does not change. */
  const units: Connection['units'] = async (signal) => {
    const taken = (await listed(signal)).map(unitOf);
    return [...named, ...taken, ...refused.keys()];
  };
  return {
    listed,
    units,
    /** The lists that were refused when they were last read, by their units. */
    refused: () => refused,
    /** Throws why a unit that stands for a list cannot be read. */
    requireReadable(unit: string): void {
      if (!isRefusedList(unit)) return;
      throw (
        refused.get(unit) ?? new SyncError('not_found', `${unit.slice(REFUSED_LIST.length)} could not be listed before`)
      );
    },
  };
}

/** The vendor's own answers to one list. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['forbidden', 'not_found', 'refused']);
