import { asSyncError, type ErrorCode, SyncError } from '../../model/errors.ts';
import type { Names } from '../../model/names.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import { createListing } from './rest.ts';

/** The repositories or projects of a vendor that a connection follows. Names are paths: `acme/api`. */
export interface Scope {
  /** Names, patterns (`acme/*`, `acme/api-*`), or ids, which survive renaming. `archived` and `forks` limit only patterns. */
  readonly include: readonly string[];
  /** Names, patterns or ids; they win over patterns, and over names too. */
  readonly exclude: readonly string[];
  readonly archived: boolean;
  readonly forks: boolean;
  /** The ids that the names among the entries are bound to; absent: no name is bound. */
  readonly names?: Names | undefined;
}

/** The part of a connector's options that the daemon adds: the known ids of the names in them. */
export interface WithNames {
  readonly names?: Names | undefined;
}

/** Returns a function that reads the scope of a tracker. @param option names what is followed */
export function scopeBy<Options extends { readonly exclude: readonly string[] }>(
  option: keyof Options,
  archived = false,
) {
  return (given: Options & WithNames): Scope => {
    return {
      include: given[option] as readonly string[],
      exclude: given.exclude,
      archived,
      forks: archived,
      names: given.names,
    };
  };
}

/** A repository or project as a payload describes it; an absent flag counts as false. */
export interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly archived?: boolean | undefined;
  readonly fork?: boolean | undefined;
}

/**
 * Whether a candidate is in scope, according to the payload and to the ids that names are bound to now. Reports the candidate to the
 * name bindings, because its name may belong to another id than before.
 */
export function inScope(candidate: Candidate, scope: Scope): boolean {
  scope.names?.report(candidate);
  const isExcludedByAny = scope.exclude.some((entry) => isExcluded(entry, candidate));
  const isIn = !isExcludedByAny && scope.include.some((entry) => isIncluded(entry, candidate, scope));
  scope.names?.reportScope?.(candidate, isIn);
  return isIn;
}

/** Whether a repository of this name may be in scope. An entry without a slash is an id and may be that of this repository. */
export function mayBeInScope(name: string, { include, exclude }: Scope): boolean {
  if (exclude.some((entry) => matches(entry, name))) return false;
  return include.some((entry) => (!isPattern(entry) && !entry.includes('/')) || matches(entry, name));
}

function isExcluded(entry: string, { id, name }: Candidate): boolean {
  return entry === id || matches(entry, name);
}

/** A bound name matches only the candidate with that id, whatever its current name is. */
function isIncluded(entry: string, candidate: Candidate, scope: Scope): boolean {
  const { id, name } = candidate;
  if (entry === id) return true;
  if (isPattern(entry)) return matches(entry, name) && passesFlags(candidate, scope);
  const bound = scope.names?.idOf(entry);
  return bound === undefined ? matches(entry, name) : bound === id;
}

function passesFlags({ archived, fork }: Candidate, scope: Scope): boolean {
  return (scope.archived || archived !== true) && (scope.forks || fork !== true);
}

/** Returns the patterns of a scope. Before they can be polled, the vendor's list must be read. */
export function patternsOf({ include }: Scope): readonly string[] {
  return include.filter(isPattern);
}

/** Returns the entries that name one repository or project each, and that no entry of `exclude` matches. */
export function namedIn({ include, exclude }: Scope): readonly string[] {
  const named = include.filter((entry) => !isPattern(entry));
  return named.filter((entry) => !exclude.some((other) => matches(other, entry)));
}

/** Returns the address by which requests name an entry: the id that it is bound to, else its name. */
export function addressOf(entry: string, { names }: WithNames): string {
  return names?.addressOf(entry) ?? entry;
}

export function isPattern(name: string): boolean {
  return name.includes('*');
}

/**
 * Whether a name matches a pattern: `*` stands for any characters within one part of a path, `**` for any parts. Ignores case.
 * Takes time proportional to both lengths whatever they contain, because both come from outside.
 */
export function matches(pattern: string, name: string): boolean {
  const tokens = pattern.toLowerCase().match(/\*\*|./gsu) ?? [];
  let positions = new Set(skipStars(tokens, 0));
  for (const character of name.toLowerCase()) {
    const next = new Set<number>();
    for (const position of positions) for (const to of step(tokens, position, character)) next.add(to);
    positions = next;
  }
  return positions.has(tokens.length);
}

function step(tokens: readonly string[], position: number, character: string): readonly number[] {
  const token = tokens[position];
  const stays = token === '**' || (token === '*' && character !== '/');
  if (stays) return skipStars(tokens, position);
  return token === character ? skipStars(tokens, position + 1) : [];
}

/** Returns the position itself and those behind the stars that follow, because a star may stand for nothing. */
function skipStars(tokens: readonly string[], from: number): readonly number[] {
  const positions = [from];
  for (let position = from; tokens[position]?.startsWith('*'); position++) positions.push(position + 1);
  return positions;
}

interface ScopeInput<Container> {
  readonly scope: Scope;
  readonly clock: Clock;
  /** The lists that together contain everything that patterns can match, by their names in messages, such as `acme/*`. */
  readonly lists: readonly { readonly name: string; read(signal: AbortSignal): Promise<readonly Container[]> }[];
  candidate(container: Container): Candidate;
  unitOf(candidate: Candidate): string;
}

/** The units of a connection, as far as its scope and the vendor's lists determine them. */
export type ScopeResolver = ReturnType<typeof createScopeResolver>;

/** The prefix of a unit that stands for a list which the vendor refused. */
const REFUSED_LIST = 'list:';

export function isRefusedList(unit: string): boolean {
  return unit.startsWith(REFUSED_LIST);
}

/** The codes of errors that concern one list, and not the vendor or the whole connection. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['forbidden', 'not_found', 'refused']);

/**
 * Resolves a scope to units. Sends no request if the scope has no patterns.
 *
 * If the vendor refuses one of several lists, that list becomes a unit which cannot be read, and the rest is followed.
 */
export function createScopeResolver<Container>({ scope, clock, lists, candidate, unitOf }: ScopeInput<Container>) {
  const named = namedIn(scope);
  const patterns = patternsOf(scope);
  const names = new Set(named.map((name) => name.toLowerCase()));
  const hasOneSource = named.length === 0 && lists.length === 1;
  let refused: ReadonlyMap<string, SyncError> = new Map();

  async function readLists(signal: AbortSignal): Promise<readonly Container[]> {
    const found: Container[] = [];
    const failed = new Map<string, SyncError>();
    for (const list of lists) {
      try {
        found.push(...(await list.read(signal)));
      } catch (thrown) {
        const error = asSyncError(thrown);
        if (hasOneSource || !REFUSALS.has(error.code)) throw thrown;
        failed.set(REFUSED_LIST + list.name, error);
      }
    }
    refused = failed;
    return found;
  }

  const listing = createListing(clock, async (signal) => {
    const matching = (await readLists(signal)).map(candidate).filter((each) => inScope(each, scope));
    const others = matching.filter(({ id, name }) => !names.has(id.toLowerCase()) && !names.has(name.toLowerCase()));
    return [...new Map(others.map((each) => [each.id, each])).values()];
  });
  /** Resolves with the containers that patterns match, without those that the configuration also names. */
  const listed = async (signal: AbortSignal): Promise<readonly Candidate[]> =>
    patterns.length === 0 ? [] : listing(signal);

  return {
    patterns,
    listed,
    /** Resolves with the configured names, the units of `listed`, which survive renaming, and the refused lists. */
    async units(signal: AbortSignal): Promise<readonly string[]> {
      const matching = (await listed(signal)).map(unitOf);
      return [...named, ...matching, ...refused.keys()];
    },
    /** Returns the lists that the vendor refused at the last read, by their units. */
    refused: () => refused,
    /** Throws for a unit that stands for a refused list: the error with which it was refused. */
    requireReadable(unit: string) {
      if (!isRefusedList(unit)) return;
      const list = unit.slice(REFUSED_LIST.length);
      throw refused.get(unit) ?? new SyncError('not_found', `${list} could not be listed before`);
    },
  };
}
