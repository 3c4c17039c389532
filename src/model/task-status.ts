/** The statuses of a task in our words. Rules, stored states and reports use them; `StatusWords` translates for the server. */
export const OWN_STATUSES = [
  'open',
  'planned',
  'in_progress',
  'review',
  'blocked',
  'completed',
  'cancelled',
  'merged',
  'idea',
] as const;
export type OwnStatus = (typeof OWN_STATUSES)[number];

/** The words of a server for our statuses; an absent status has the same word there. */
export type StatusWords = Readonly<Partial<Record<OwnStatus, string>>>;

/** Returns the server's word for a status. A status that is not ours is a word of the server already. */
export function serverStatus(words: StatusWords, status: string): string {
  return (Object.hasOwn(words, status) ? words[status as OwnStatus] : undefined) ?? status;
}

/**
 * Returns our status for a word of the server; a word that stands for none of ours is returned unchanged. If the server
 * has one word for several of our statuses, the first in the order of `OWN_STATUSES` is returned, so compare the words
 * of the server and not the results.
 */
export function ownStatus(words: StatusWords, word: string): string {
  return OWN_STATUSES.find((status) => serverStatus(words, status) === word) ?? word;
}

/** Returns the words of the server that stand for several of our statuses, with these statuses. */
export function sharedWords(words: StatusWords): readonly (readonly [word: string, statuses: readonly OwnStatus[]])[] {
  const statusesByWord = Map.groupBy(OWN_STATUSES, (status) => serverStatus(words, status));
  return [...statusesByWord].filter(([, statuses]) => statuses.length > 1);
}
