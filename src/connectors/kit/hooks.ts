import { asSyncError } from '../../errors/sync-error.ts';
import type { HookState, Hooks } from '../connector.ts';

type Signal = AbortSignal;
type Outcome = Awaited<ReturnType<Hooks['install']>>[number]['outcome'];

/** Webhooks of a vendor that knows one or more for each of its containers. */
interface HooksOfContainers<Container, Standing> {
  followed(signal: Signal): Promise<readonly Container[]>;
  /** All webhooks that lead to this address. Throws `forbidden` for those who may not look. */
  leadingTo(url: string, signal: Signal): Promise<readonly Standing[]>;
  subjectOf(container: Container): string;
  stateOf(container: Container, standing: readonly Standing[]): Omit<HookState, 'subject'>;
  /** What is said of each where nobody may look. */
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

/** Webhooks of a vendor that is asked place by place: for an organisation, a workspace, a repository. */
export function hooksOfPlaces<Place>(
  placesOf: (signal: Signal) => Promise<readonly Place[]>,
  stateAt: (place: Place, url: string, signal: Signal) => Promise<HookState>,
  installAt: (place: Place, wanted: { readonly url: string; readonly secret: string }, signal: Signal) => Promise<Line>,
): Hooks {
  async function everywhere<Result>(visit: (place: Place) => Promise<Result>, signal: Signal): Promise<Result[]> {
    const results: Result[] = [];
    for (const place of await placesOf(signal)) results.push(await visit(place));
    return results;
  }
  return {
    states: (url, signal) => everywhere((place) => stateAt(place, url, signal), signal),
    install: (url, secret, signal) => everywhere((place) => installAt(place, { url, secret }, signal), signal),
  };
}
