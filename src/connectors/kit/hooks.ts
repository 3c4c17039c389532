import type { ErrorCode } from '../../model/errors/codes.ts';
import type { HookState, Hooks, InstalledHook } from '../connector.ts';
import { undefinedOn } from './refusal.ts';
import { addressOf, matches, namedIn, type Scope } from './scope.ts';

type Signal = AbortSignal;

type State = Omit<HookState, 'subject'>;

interface Target {
  readonly url: string;
  readonly secret: string;
}

/** Webhooks of a vendor, at each of its places. */
interface HooksOf<Place, Standing> {
  placesOf(signal: Signal): Promise<readonly Place[]>;
  subjectOf(place: Place): string;
  /** Begins a round: the function finds what sends to the address at a place. */
  finder(url: string, signal: Signal): (place: Place) => Promise<Standing | undefined>;
  /** Codes of errors that mean: this credential may not read the webhooks. They are `unknown` then. */
  readonly hidden: readonly ErrorCode[];
  readonly unknown: State;
  stateOf(standing: Standing | undefined, place: Place): State;
  /** Whether there is nothing to repair. */
  isRight(standing: Standing): boolean;
  /** Registers, repairs and switches on; resolves with the state afterwards. */
  save(place: Place, standing: Standing | undefined, wanted: Target, signal: Signal): Promise<State>;
}

export function hooksOf<Place, Standing>(vendor: HooksOf<Place, Standing>): Hooks {
  const { placesOf, subjectOf, finder, hidden, unknown, stateOf, isRight, save } = vendor;

  async function everywhere<Line extends State>(visit: (place: Place) => Promise<Line>, signal: Signal) {
    const lines: (Line & HookState)[] = [];
    for (const place of await placesOf(signal)) lines.push({ ...(await visit(place)), subject: subjectOf(place) });
    return lines;
  }

  return {
    states(url, signal) {
      const find = finder(url, signal);
      return everywhere(async (place) => {
        const asked = find(place).then((standing) => ({ standing }));
        const found = await undefinedOn(asked, ...hidden);
        return found ? stateOf(found.standing, place) : unknown;
      }, signal);
    },
    install(url, secret, signal) {
      const find = finder(url, signal);
      return everywhere(async (place): Promise<Omit<InstalledHook, 'subject'>> => {
        const standing = await find(place);
        const wasRight = standing !== undefined && isRight(standing);
        const state = await save(place, standing, { url, secret }, signal);
        return { ...state, outcome: standing === undefined ? 'created' : wasRight ? 'unchanged' : 'updated' };
      }, signal);
    },
  };
}

/** Where a webhook can be registered: a whole owner, or a repository. */
export interface HookPlace {
  /** For people. */
  readonly subject: string;
  /** The path of its hooks. */
  readonly path: string;
}

interface Followed {
  readonly scope: Scope;
  listed(signal: Signal): Promise<readonly { readonly id: string; readonly name: string }[]>;
  /** The unit of what a pattern took in. */
  unitOf(listed: { readonly id: string; readonly name: string }): string;
  /** The path of a repository in the API. */
  pathOf(unit: string): string;
}

/** The owners that are followed whole, and the repositories besides. */
export async function hookPlaces(
  owners: readonly HookPlace[],
  { scope, listed, unitOf, pathOf }: Followed,
  signal: Signal,
): Promise<readonly HookPlace[]> {
  const repositories = [
    ...namedIn(scope).map((name) => ({ name, unit: addressOf(name, scope) })),
    ...(await listed(signal)).map((each) => ({ name: each.name, unit: unitOf(each) })),
  ];
  const isCovered = (name: string) => owners.some(({ subject }) => matches(`${subject}/*`, name));
  const singles = repositories.filter(({ name }) => !isCovered(name));
  return [...owners, ...singles.map(({ name, unit }) => ({ subject: name, path: `${pathOf(unit)}/hooks` }))];
}

/** Webhooks of a vendor that lists them at each place apart. */
interface HooksOfPlaces<Standing> extends Pick<HooksOf<HookPlace, Standing>, 'placesOf' | 'hidden'> {
  /** The webhook of this place that sends to the address. */
  find(place: HookPlace, url: string, signal: Signal): Promise<Standing | undefined>;
  /** What to do where it may not be read, and where a webhook is absent, switched off or faulty. */
  readonly hints: { readonly hidden: string; readonly repair: string };
  /** How messages call it. */
  nameOf(standing: Standing): string;
  isOn(standing: Standing): boolean;
  /** What is wrong with a webhook, each flaw as the predicate of a sentence: `has no secret`. */
  flawsOf(standing: Standing): readonly string[];
  /** What the vendor says of its last delivery, where that failed. */
  saidOf?(standing: Standing): string;
  /** Registers a webhook, or repairs the one that is there; resolves with the webhook as it is afterwards. */
  save(place: HookPlace, standing: Standing | undefined, wanted: Target, signal: Signal): Promise<Standing>;
}

export function hooksOfPlaces<Standing>(vendor: HooksOfPlaces<Standing>): Hooks {
  const { placesOf, find, hidden, hints, nameOf, isOn, flawsOf, saidOf, save } = vendor;
  const isRight = (standing: Standing) => isOn(standing) && flawsOf(standing).length === 0;

  function stateOf(standing: Standing | undefined): State {
    if (standing === undefined)
      return { state: 'absent', message: 'no webhook sends to this address', hint: hints.repair };
    const name = nameOf(standing);
    if (!isOn(standing)) return { state: 'disabled', message: `${name} is switched off`, hint: hints.repair };
    const what = flawsOf(standing).join(', ') || 'is registered';
    const message = `${name} ${what}${saidOf?.(standing) ?? ''}`;
    return { state: 'active', message, ...(isRight(standing) ? {} : { hint: hints.repair }) };
  }

  return hooksOf<HookPlace, Standing>({
    placesOf,
    subjectOf: ({ subject }) => subject,
    finder: (url, signal) => (place) => find(place, url, signal),
    hidden,
    unknown: { state: 'unknown', message: 'this credential may not read the webhooks', hint: hints.hidden },
    stateOf,
    isRight,
    save: async (...given) => stateOf(await save(...given)),
  });
}
