import type { Chance } from '../bench/quota/references/chance.ts';

/** Faults of requests to one server for a while. */
export const TROUBLES = [
  /** No connection: it never leaves. */
  'unreachable',
  /** It leaves and never arrives; nobody answers. */
  'lost-before',
  /** It is carried out; nobody answers. */
  'lost-after',
  /** The sender gives up early; it arrives seconds later all the same. */
  'late',
  /** An error in place of carrying it out. */
  'failed-before',
  /** It is carried out; an error in place of its answer. */
  'failed-after',
  /** Refused, as if others used the quota. */
  'limited',
  /** The credential is not taken. */
  'revoked',
  /** The answer takes long, sometimes longer than anybody waits. */
  'slow',
] as const;
/** Besides, the server may say that it knows of nothing that it is asked for; or it carries out what it is asked for, and says nothing. */
export type Trouble = (typeof TROUBLES)[number] | 'hidden' | 'silent';

interface Front {
  readonly server: string;
  readonly trouble: Trouble;
  readonly share: number;
  readonly until: number;
  readonly words: string;
}

export type Weather = ReturnType<typeof createWeather>;

export function createWeather(now: () => number, chance: Chance, longest = Number.POSITIVE_INFINITY) {
  let fronts: Front[] = [];
  let longestPage = longest;
  return {
    /** From now until then, for this share of the requests to this server; or of those whose body has these words. */
    turn: (server: string, trouble: Trouble, share: number, until: number, words = '') =>
      void fronts.push({ server, trouble, share, until, words }),
    of(server: string, body: string): Trouble | undefined {
      fronts = fronts.filter(({ until }) => until > now());
      const fits = (front: Front) => front.server === server && body.includes(front.words);
      for (const front of fronts) if (fits(front) && chance.happens(front.share)) return front.trouble;
      return undefined;
    },
    /** No server gives longer pages. */
    longestPage: () => longestPage,
    clear: () => void (fronts = []),
    /** From now on pages are as long as they are asked for. Not amid a walk: servers count pages by their length. */
    givePages: () => void (longestPage = Number.POSITIVE_INFINITY),
  };
}
