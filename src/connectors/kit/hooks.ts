import { asSyncError, type ErrorCode, type SyncError } from '../../model/errors.ts';
import type { HookState, Hooks, InstalledHook } from '../connector.ts';
import { undefinedOn } from './refusal.ts';
import { addressOf, matches, namedIn, type Scope, type ScopeResolver } from './scope.ts';

type State = Omit<HookState, 'subject'>;

interface Target {
  readonly url: string;
  readonly secret: string;
}

/** A vendor's webhooks. A place is a project, a team or another object that a webhook belongs to. */
interface VendorHooks<Place, Hook> {
  placesOf(signal: AbortSignal): Promise<readonly Place[]>;
  subjectOf(place: Place): string;
  /** Begins a round. Returns a function that finds the webhook of a place which sends to the address. */
  finder(url: string, signal: AbortSignal): (place: Place) => Promise<Hook | undefined>;
  /** The codes of errors which mean that this credential may not read the webhooks. Their state is then `unknown`. */
  readonly hidden: readonly ErrorCode[];
  readonly unknown: State;
  stateOf(hook: Hook | undefined, place: Place): State;
  /** Whether there is nothing to repair. */
  isRight(hook: Hook): boolean;
  /** Registers, repairs and switches on a webhook. Resolves with the state afterwards. */
  save(place: Place, hook: Hook | undefined, target: Target, signal: AbortSignal): Promise<State>;
}

export function hooksOf<Place, Hook>(vendor: VendorHooks<Place, Hook>): Hooks {
  const { placesOf, subjectOf, finder, hidden, unknown, stateOf, isRight, save } = vendor;

  async function visitAll<Result extends State>(visit: (place: Place) => Promise<Result>, signal: AbortSignal) {
    const results: (Result & HookState)[] = [];
    for (const place of await placesOf(signal)) results.push({ ...(await visit(place)), subject: subjectOf(place) });
    return results;
  }

  return {
    states(url, signal) {
      const find = finder(url, signal);
      return visitAll(async (place) => {
        const request = find(place).then((hook) => ({ hook }));
        const found = await undefinedOn(request, ...hidden);
        return found ? stateOf(found.hook, place) : unknown;
      }, signal);
    },
    install(url, secret, signal) {
      const find = finder(url, signal);
      return visitAll(async (place): Promise<Omit<InstalledHook, 'subject'>> => {
        try {
          const hook = await find(place);
          const wasRight = hook !== undefined && isRight(hook);
          const state = await save(place, hook, { url, secret }, signal);
          return { ...state, outcome: hook === undefined ? 'created' : wasRight ? 'unchanged' : 'updated' };
        } catch (thrown) {
          const error = refusalOfPlace(thrown);
          return { ...refused(error), ...(hidden.includes(error.code) && { hint: unknown.hint ?? error.hint }) };
        }
      }, signal);
    },
  };
}

/** Returns the refusal of one place. Throws every other error, because the next place would meet it too. */
export function refusalOfPlace(thrown: unknown): SyncError {
  const error = asSyncError(thrown);
  if (error.code !== 'not_found' && error.code !== 'forbidden' && error.code !== 'refused') throw error;
  return error;
}

/** The webhook of a place for which the vendor refused an installation. */
export function refused({ message, hint }: SyncError): Omit<InstalledHook, 'subject'> {
  return { state: 'unknown', outcome: 'unknown', message, hint };
}

/** A place of a git provider's webhooks: a whole owner, or a repository. */
export interface HookPlace {
  readonly subject: string;
  readonly path: string;
}

interface Repositories extends Pick<ScopeResolver, 'listed'> {
  readonly scope: Scope;
  unitOf(repository: { readonly id: string; readonly name: string }): string;
  pathOf(unit: string): string;
}

/** Resolves with the owners that are followed whole, and with the repositories that no such owner contains. */
export async function hookPlaces(
  owners: readonly HookPlace[],
  { scope, listed, unitOf, pathOf }: Repositories,
  signal: AbortSignal,
): Promise<readonly HookPlace[]> {
  const repositories = [
    ...namedIn(scope).map((name) => ({ name, unit: addressOf(name, scope) })),
    ...(await listed(signal)).map((repository) => ({ name: repository.name, unit: unitOf(repository) })),
  ];
  const isCovered = (name: string) => owners.some(({ subject }) => matches(`${subject}/*`, name));
  const others = repositories.filter(({ name }) => !isCovered(name));
  return [...owners, ...others.map(({ name, unit }) => ({ subject: name, path: `${pathOf(unit)}/hooks` }))];
}

interface VendorHooksOfPlaces<Hook> extends Pick<VendorHooks<HookPlace, Hook>, 'placesOf' | 'hidden'> {
  find(place: HookPlace, url: string, signal: AbortSignal): Promise<Hook | undefined>;
  /** The remedies for webhooks that may not be read, and for those that are absent, switched off or faulty. */
  readonly hints: { readonly hidden: string; readonly repair: string };
  nameOf(hook: Hook): string;
  isOn(hook: Hook): boolean;
  /** Returns the faults of a webhook, each as the predicate of a sentence: `has no secret`. */
  flawsOf(hook: Hook): readonly string[];
  /** Returns the vendor's message about the last delivery, if that failed. */
  saidOf?(hook: Hook): string;
  /** Registers a webhook, or repairs the existing one. Resolves with the webhook afterwards. */
  save(place: HookPlace, hook: Hook | undefined, target: Target, signal: AbortSignal): Promise<Hook>;
}

export function hooksOfPlaces<Hook>(vendor: VendorHooksOfPlaces<Hook>): Hooks {
  const { placesOf, find, hidden, hints, nameOf, isOn, flawsOf, saidOf, save } = vendor;
  const isRight = (hook: Hook) => isOn(hook) && flawsOf(hook).length === 0;

  function stateOf(hook: Hook | undefined): State {
    if (hook === undefined) return { state: 'absent', message: 'no webhook sends to this address', hint: hints.repair };
    const name = nameOf(hook);
    if (!isOn(hook)) return { state: 'disabled', message: `${name} is switched off`, hint: hints.repair };
    const what = flawsOf(hook).join(', ') || 'is registered';
    const message = `${name} ${what}${saidOf?.(hook) ?? ''}`;
    return { state: 'active', message, ...(isRight(hook) ? {} : { hint: hints.repair }) };
  }

  return hooksOf<HookPlace, Hook>({
    placesOf,
    subjectOf: ({ subject }) => subject,
    finder: (url, signal) => (place) => find(place, url, signal),
    hidden,
    unknown: { state: 'unknown', message: 'this credential may not read the webhooks', hint: hints.hidden },
    stateOf,
    isRight,
    save: async (...request) => stateOf(await save(...request)),
  });
}
