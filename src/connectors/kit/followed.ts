import type { ErrorCode } from '../../model/errors/codes.ts';
import { asSyncError, SyncError } from '../../model/errors/sync-error.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection, Finding } from '../connector.ts';
import { findingsOf } from './finding.ts';
import { createListing } from './listing.ts';
import { addressOf, type Candidate, inScope, namedIn, patternsOf, type Scope } from './scope.ts';
import { unlessOff } from './switched-off.ts';
import type { Source, Tracker } from './tracker-vendor.ts';

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
export function createFollowed<Container>({ scope, clock, lists, candidate, unitOf }: Followed<Container>) {
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

/** Checks the address and the credential, and then each unit. Reads only. */
export async function checkUnits<Container>(
  { word, option, hint }: Tracker<never, never, Container>['container'],
  source: Pick<Source<Container>, 'about' | 'container' | 'describe' | 'offIn'>,
  scope: Scope,
  { units, requireReadable }: Pick<ReturnType<typeof createFollowed>, 'units' | 'requireReadable'>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { first, besides = [] } = await source.about(signal);
  if (first.some(({ level }) => level === 'error')) return first;
  async function describe(unit: string, container: Container): Promise<Finding> {
    try {
      return await unlessOff(
        () => source.describe(unit, container, signal),
        async () => source.offIn?.(container),
      );
    } catch (thrown) {
      const { code, message, hint } = asSyncError(thrown);
      if (code !== 'feature_off') throw thrown;
      return { level: 'ok', subject: unit, message, hint };
    }
  }
  const checkUnit = (unit: string) =>
    findingsOf(unit, async () => {
      requireReadable(unit);
      const container = await source.container(addressOf(unit, scope), signal);
      return [await describe(unit, container)];
    });
  const found = await findingsOf(option, async () => {
    const findings: Finding[] = [];
    for (const unit of await units(signal)) findings.push(...(await checkUnit(unit)));
    const message = `${option} matches no ${word} that this credential can see`;
    return findings.length === 0 ? [{ level: 'error', subject: option, message, hint }] : findings;
  });
  return [...first, ...besides, ...found];
}
