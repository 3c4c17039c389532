import { closest, distance } from 'fastest-levenshtein';

/** Returns the most similar candidate; undefined if more than a third of its letters differ. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (candidates.length === 0) return undefined;
  const best = closest(word, candidates);
  return distance(word, best) <= Math.ceil(best.length / 3) ? best : undefined;
}

/** Returns ` (did you mean "x"?)`, or an empty text if no candidate is near. */
export function didYouMean(word: string, candidates: readonly string[]): string {
  const meant = nearest(word, candidates);
  return meant === undefined ? '' : ` (did you mean "${meant}"?)`;
}
