import type { ErrorCode } from '../../errors/codes.ts';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HookState, Hooks } from '../connector.ts';
import { unless } from './refusal.ts';

type Signal = AbortSignal;
type Outcome = Awaited<ReturnType<Hooks['install']>>[number]['outcome'];

/** Webhooks of a vendor that lists them all at once, one or more for each of its containers. */
interface HooksOfContainers<Container, Standing> {
  followed(signal: Signal): Promise<readonly Container[]>;
  /** All webhooks that send to this address. Throws `forbidden` where this credential may not read them. */
  leadingTo(url: string, signal: Signal): Promise<readonly Standing[]>;
  subjectOf(container: Container): string;
  stateOf(container: Container, standing: readonly Standing[]): Omit<HookState, 'subject'>;
  /** The state of each container where this credential may not read webhooks. */
  readonly unknown: Omit<HookState, 'subject'>;
  readonly active: Omit<HookState, 'subject'>;
  /** Registers, repairs and switches on what one container needs. */
  keep(
    container: Container,
    standing: readonly Standing[],
    wanted: { readonly url: string; readonly secret: string },
    signal: Signal,
  ): Promise<Outcome>;
}

export function hooksOfContainers<Container, Standing>(hooks: HooksOfContainers<Container, Standing>): Hooks {
  const { followed, leadingTo, subjectOf, stateOf, unknown, active, keep } = hooks;
  return {
    async states(url, signal) {
      const wanted = await followed(signal);
      try {
        const standing = await leadingTo(url, signal);
        return wanted.map((each) => ({ ...stateOf(each, standing), subject: subjectOf(each) }));
      } catch (thrown) {
        const { code } = asSyncError(thrown);
        if (code !== 'forbidden' && code !== 'unauthorized') throw thrown;
        return wanted.map((each) => ({ ...unknown, subject: subjectOf(each) }));
      }
    },
    async install(url, secret, signal) {
      const wanted = await followed(signal);
      const standing = await leadingTo(url, signal);
      const done: Awaited<ReturnType<Hooks['install']>>[number][] = [];
      for (const each of wanted) {
        const outcome = await keep(each, standing, { url, secret }, signal);
        done.push({ ...active, subject: subjectOf(each), outcome });
      }
      return done;
    },
  };
}

type Line = Awaited<ReturnType<Hooks['install']>>[number];

/** Webhooks of a vendor that has one at each place: an organisation, a workspace, a repository. */
interface HooksOfPlaces<Place extends { readonly subject: string }, Standing> {
  placesOf(signal: Signal): Promise<readonly Place[]>;
  /** The webhook of this place that sends to the address. */
  find(place: Place, url: string, signal: Signal): Promise<Standing | undefined>;
  /** Codes of errors that mean: this credential may not read the webhooks of the place. */
  readonly hidden: readonly ErrorCode[];
  /** What to do where it may not, and where a webhook is absent, switched off or faulty. */
  readonly hints: { readonly hidden: string; readonly repair: string };
  /** How messages call it. */
  nameOf(standing: Standing): string;
  isOn(standing: Standing): boolean;
  /** What is wrong with a webhook, each flaw as the predicate of a sentence: `has no secret`. */
  flawsOf(standing: Standing): readonly string[];
  /** What the vendor says of its last delivery, where that failed. */
  saidOf?(standing: Standing): string;
  /** Registers a webhook, or repairs the one that is there; resolves with the webhook as it is afterwards. */
  save(
    place: Place,
    standing: Standing | undefined,
    wanted: { readonly url: string; readonly secret: string },
    signal: Signal,
  ): Promise<Standing>;
}

export function hooksOfPlaces<Place extends { readonly subject: string }, Standing>(
  vendor: HooksOfPlaces<Place, Standing>,
): Hooks {
  const { placesOf, find, hidden, hints, nameOf, isOn, flawsOf, saidOf, save } = vendor;
  const isRight = (standing: Standing) => isOn(standing) && flawsOf(standing).length === 0;

  async function everywhere<Result>(visit: (place: Place) => Promise<Result>, signal: Signal): Promise<Result[]> {
    const results: Result[] = [];
    for (const place of await placesOf(signal)) results.push(await visit(place));
    return results;
  }

  function describe(standing: Standing): Omit<HookState, 'subject'> {
    const name = nameOf(standing);
    if (!isOn(standing)) return { state: 'disabled', message: `${name} is switched off`, hint: hints.repair };
    const what = flawsOf(standing).join(', ') || 'is registered';
    const message = `${name} ${what}${saidOf?.(standing) ?? ''}`;
    return { state: 'active', message, ...(isRight(standing) ? {} : { hint: hints.repair }) };
  }

  async function stateAt(place: Place, url: string, signal: Signal): Promise<HookState> {
    const { subject } = place;
    const asked = await unless(
      find(place, url, signal).then((standing) => ({ standing })),
      ...hidden,
    );
    if (!asked)
      return { subject, state: 'unknown', message: 'this credential may not read the webhooks', hint: hints.hidden };
    const { standing } = asked;
    if (standing) return { subject, ...describe(standing) };
    return { subject, state: 'absent', message: 'no webhook sends to this address', hint: hints.repair };
  }

  return {
    states: (url, signal) => everywhere((place) => stateAt(place, url, signal), signal),
    install: (url, secret, signal) =>
      everywhere(async (place): Promise<Line> => {
        const standing = await find(place, url, signal);
        const wasRight = standing !== undefined && isRight(standing);
        const after = await save(place, standing, { url, secret }, signal);
        const outcome = standing ? (wasRight ? 'unchanged' : 'updated') : 'created';
        return { subject: place.subject, ...describe(after), outcome };
      }, signal),
  };
}
