import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Connection, Finding } from '../connector.ts';
import { findingsOf } from './finding.ts';
import { createListing } from './listing.ts';
import { addressOf, type Candidate, inScope, namedIn, patternsOf, type Scope } from './scope.ts';
import { unlessOff } from './switched-off.ts';
import type { Source, Tracker } from './tracker-vendor.ts';

interface Followed<Container> {
  readonly scope: Scope;
  readonly clock: Clock;
  /** Everything that the credential sees. */
  all(signal: AbortSignal): Promise<readonly Container[]>;
  candidate(container: Container): Candidate;
  unitOf(candidate: Candidate): string;
}

/** What a connection follows. Where there are no patterns, this sends no request. */
export function createFollowed<Container>({ scope, clock, all, candidate, unitOf }: Followed<Container>) {
  const named = namedIn(scope);
  const names = new Set(named.map((name) => name.toLowerCase()));
  const listing = createListing(clock, async (signal) => {
    const taken = (await all(signal)).map(candidate).filter((each) => inScope(each, scope));
    const others = taken.filter(({ id, name }) => !names.has(id.toLowerCase()) && !names.has(name.toLowerCase()));
    return [...new Map(others.map((each) => [each.id, each])).values()];
  });
  /** What patterns take in, without what the configuration names besides. */
  const listed = async (signal: AbortSignal) => (patternsOf(scope).length === 0 ? [] : listing(signal));
  /** Configured names are units themselves; what a pattern took in has a unit that a new name does not change. */
  const units: Connection['units'] = async (signal) => [...named, ...(await listed(signal)).map(unitOf)];
  return { listed, units };
}

/** Checks the address and the credential, and then each unit. Reads only. */
export async function checkUnits<Container>(
  { word, option, hint }: Tracker<never, never, Container>['container'],
  source: Pick<Source<Container>, 'about' | 'container' | 'describe' | 'offIn'>,
  scope: Scope,
  units: Connection['units'],
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
