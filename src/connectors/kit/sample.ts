import { SyncError } from '../../model/errors.ts';
import { type Binding, boundNames } from '../../model/names.ts';
import type { SampleContext, SampleEvent } from '../connector.ts';
import { UUID } from './payload.ts';
import { type Candidate, inScope, isPattern, type Scope } from './scope.ts';

/** The beginning of every sample's title, by which people recognize it. */
export const TRIAL = 'worksync trial';

/** Returns the title of a sample. It names the task, if there is one, so that the sample is linked to it. */
export function trialTitle({ task }: Pick<SampleContext, 'task'>): string {
  return task === undefined ? TRIAL : `${TRIAL} (${task})`;
}

export const TRIAL_TEXT =
  'Made by "worksync trigger" to try this connection. It exists in worksync alone: you may delete it.';
/** The name of samples that must not contain spaces: a branch, an account, a repository. */
export const TRIAL_NAME = 'worksync-trial';
/** The path of a sample repository below an owner. */
export const TRIAL_PATH = `worksync/${TRIAL_NAME}`;
/** A number that no vendor has reached. */
export const TRIAL_NUMBER = 999_000_001;
export const TRIAL_UUID = '00000000-0000-4000-8000-000000000001';

/** The form of a vendor's ids of repositories, projects or teams. */
interface Ids {
  /** An invented id. */
  readonly made: string;
  /** Matches the entries of a scope that are ids. Absent: none are. */
  readonly pattern?: RegExp;
}

export const NUMBERS: Ids = { made: String(TRIAL_NUMBER), pattern: /^\d+$/ };
export const UUIDS: Ids = { made: TRIAL_UUID, pattern: UUID };

/** An invented repository, project or team. */
interface InventedPlace {
  readonly ids: Ids;
  /** The name for an entry that is an id. Its last part replaces the stars of a pattern. */
  readonly name?: string;
}

/** The input for the payload of a sample. */
interface PayloadInput<Options> extends SampleContext {
  readonly options: Options;
  readonly place: Candidate;
  /** The time of the sample, RFC 3339. */
  readonly now: string;
  readonly title: string;
}

interface SampleSet<Options, Name extends string, What> {
  scopeOf(options: Options): Scope;
  readonly place: InventedPlace;
  /** Each event with a description, and with the data that distinguishes it from the others. */
  readonly events: Readonly<Record<Name, readonly [about: string, what: What]>>;
  headers?(what: What): Readonly<Record<string, string>>;
  payload(what: What, input: PayloadInput<Options>): object;
}

/** Returns sample events about one invented item, in a place that the connection follows. */
export function samplesOf<Options, Name extends string, What>(
  set: SampleSet<Options, Name, What>,
): Readonly<Record<Name, SampleEvent<Options>>> {
  const { scopeOf, headers = () => ({}) } = set;
  const eventOf = ([about, what]: readonly [string, What]): SampleEvent<Options> => ({
    about,
    headers: headers(what),
    payload(options, context) {
      const place = placeIn(scopeOf(options), context, set.place);
      const now = new Date(context.at).toISOString();
      return set.payload(what, { ...context, options, place, now, title: trialTitle(context) });
    },
  });
  const events = Object.entries<readonly [string, What]>(set.events).map(([name, each]) => [name, eventOf(each)]);
  return Object.fromEntries(events) as Record<Name, SampleEvent<Options>>;
}

/**
 * Returns a place that the connection follows. A name is used only with the id that it is bound to. An invented id would be bound
 * to the name, or would look as if the name led elsewhere. Throws `refused` if no id is known.
 */
function placeIn(scope: Scope, { bindings }: Pick<SampleContext, 'bindings'>, invented: InventedPlace): Candidate {
  const names = boundNames(bindings);
  const found = scope.include
    .map((entry) => candidateOf(entry, bindings, invented))
    .find((place) => place && inScope(place, { ...scope, names }));
  if (found) return found;
  const hint = 'Let the daemon reach the vendor once, or give the id that the name has at the vendor with --id.';
  throw new SyncError('refused', 'worksync does not know yet which id the names of this connection have', { hint });
}

function candidateOf(entry: string, bindings: readonly Binding[], invented: InventedPlace): Candidate | undefined {
  const { ids, name = TRIAL_NAME } = invented;
  if (isPattern(entry)) return { id: ids.made, name: entry.replaceAll(/\*+/g, name.replace(/^.*\//, '')) };
  const bound = bindings.find((each) => each.entry === entry.toLowerCase());
  if (bound) return { id: bound.id, name: bound.called };
  return ids.pattern?.test(entry) ? { id: entry, name } : undefined;
}
