import { asSyncError } from '../../errors/sync-error.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Connection, Finding } from '../connector.ts';
import { failed } from './finding.ts';
import { createListing } from './listing.ts';
import { addressOf, type Candidate, inScope, namedIn, patternsOf, type Scope } from './scope.ts';

interface Followed<Container> {
  readonly scope: Scope;
  readonly clock: Clock;
  /** Everything that the credential sees. */
  all(signal: AbortSignal): Promise<readonly Container[]>;
  candidate(container: Container): Candidate;
  readonly unitBy: 'id' | 'name';
}

/** The units to walk: those that are named, and those that patterns take in. Costs nothing where there are no patterns. */
export function createUnits<Container>(followed: Followed<Container>): Connection['units'] {
  const { scope, clock, all, candidate, unitBy } = followed;
  const named = namedIn(scope);
  if (patternsOf(scope).length === 0) return async () => named;
  const listing = createListing(clock, all);
  return async (signal) => {
    const taken = (await listing(signal)).map(candidate).filter((each) => inScope(each, scope));
    const others = taken.filter(({ id, name }) => !named.includes(id) && !named.includes(name));
    return [...named, ...others.map((each) => each[unitBy])];
  };
}

/** What `check` says of the place and the credential. */
export interface About {
  /** Where there is an error among these, nothing further can be seen. */
  readonly first: readonly Finding[];
  readonly besides?: readonly Finding[];
}

interface Checked<Container> {
  readonly scope: Scope;
  readonly container: { readonly word: string; readonly option: string; readonly hint: string };
  readonly units: Connection['units'];
  about(signal: AbortSignal): Promise<About>;
  find(unit: string, signal: AbortSignal): Promise<Container>;
  describe(unit: string, container: Container, signal: AbortSignal): Promise<Finding>;
}

/** Proves the place and the credential, and then each unit. Reads only. */
export async function checkUnits<Container>(
  checked: Checked<Container>,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { word, option, hint } = checked.container;
  const { first, besides = [] } = await checked.about(signal);
  if (first.some(({ level }) => level === 'error')) return first;
  const findings = [...first, ...besides];
  try {
    const units = await checked.units(signal);
    const message = `${option} matches no ${word} that this credential can see`;
    if (units.length === 0) findings.push({ level: 'error', subject: option, message, hint });
    for (const unit of units) findings.push(await checkUnit(checked, unit, signal));
  } catch (thrown) {
    findings.push(failed(option, asSyncError(thrown)));
  }
  return findings;
}

async function checkUnit<Container>({ scope, find, describe }: Checked<Container>, unit: string, signal: AbortSignal) {
  try {
    return await describe(unit, await find(addressOf(unit, scope), signal), signal);
  } catch (thrown) {
    return failed(unit, asSyncError(thrown));
  }
}
