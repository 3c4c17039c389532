/** A trailer that people may write, at every vendor: `Reverts: #12`, or `Reverts: !12` at GitLab. */
const TRAILER = /^reverts:[ \t]*[#!]([1-9]\d{0,15})[ \t]*$/im;

/** A text that may name the reverted pull request, and the pattern of the vendor, whose first group is its number. */
type Clue = readonly [text: string | null | undefined, pattern: RegExp];

/**
 * Returns the number of the pull request of the same repository that another one reverts, by the vendor's own texts or by a
 * trailer of the description. Null: no text names one. Undefined: a text that the payload lacks may name one.
 */
export function revertedNumber(
  description: string | null | undefined,
  ...clues: readonly Clue[]
): string | null | undefined {
  const all: readonly Clue[] = [...clues, [description, TRAILER]];
  for (const [text, pattern] of all) {
    const number = pattern.exec(text ?? '')?.[1];
    if (number !== undefined) return number;
  }
  return all.some(([text]) => text === undefined) ? undefined : null;
}

/** Written by `git revert`. */
const COMMIT = /^This reverts commit ([0-9a-f]{12,64})\b/m;

/** Returns the hash of the commit that a pull request reverts, by git's own text in its description. Null and undefined as above. */
export function revertedCommit(description: string | null | undefined): string | null | undefined {
  return description == null ? description : (COMMIT.exec(description)?.[1] ?? null);
}
