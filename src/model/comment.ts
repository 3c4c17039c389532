/** A comment of ours as it stands at a vendor, or a comment that a vendor tells of. */
export interface StandingComment {
  /** The vendor's id of it, where it tells one. */
  readonly id?: string;
  /** The account that wrote it as it is now, as the vendor's webhooks name it. */
  readonly author: string;
  /** Without markup, see `plainComment`. */
  readonly text: string;
}

/** What a comment of ours should say. */
export interface WantedComment {
  /** An HTML comment, by which it is found again. */
  readonly marker: string;
  readonly text: string;
  /** It only changes one that is there: where there is none, none is posted. */
  readonly isCorrection?: boolean;
}

/** Nothing that is longer was written by us. */
const LONGEST = 20_000;

/** What is left of a comment where its marker is shown or hidden, and its lines end as each vendor likes. */
export function plainComment(text: string): string {
  return text
    .slice(0, LONGEST)
    .replace(/<!--|-->/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

/**
 * Whether what a vendor tells of is what we wrote, and nobody has touched since. Who uses our account by hand writes something
 * else, or edits what we wrote.
 */
export function isEcho(told: StandingComment, ours: StandingComment | undefined): boolean {
  if (ours === undefined || told.author !== ours.author || told.text !== ours.text) return false;
  return told.id === undefined || ours.id === undefined || told.id === ours.id;
}
