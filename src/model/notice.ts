/** A comment at a vendor: one that worksync wrote, or one that a vendor reports. */
export interface PostedComment {
  /** The vendor's id of the comment, where it reports one. */
  readonly id?: string;
  /** The account that wrote the current text, as the vendor's webhooks name it. */
  readonly author: string;
  /** Without markup, see `plainComment`. */
  readonly text: string;
}

/** The comment that worksync should have written about an item. */
export interface DesiredComment {
  /** An HTML comment by which the posted comment is found again. */
  readonly marker: string;
  readonly text: string;
  /** Only updates an existing comment: if there is none, none is posted. */
  readonly isCorrection?: boolean;
}

/** worksync never writes a longer comment. UTF-16 units. */
const LONGEST_COMMENT = 20_000;

/** Returns a comment in a form that is the same at every vendor, whether or not it shows the marker and its line ends. */
export function plainComment(text: string): string {
  return text
    .slice(0, LONGEST_COMMENT)
    .replace(/<!--|-->/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

/**
 * Whether a reported comment is the one that worksync wrote, unchanged since.
 * A person who uses the same account writes another text, or edits ours.
 */
export function isEcho(reported: PostedComment, ours: PostedComment | undefined): boolean {
  if (ours === undefined || reported.author !== ours.author || reported.text !== ours.text) return false;
  return reported.id === undefined || ours.id === undefined || reported.id === ours.id;
}

/** The commit status of the head of a pull request, which people see beside the results of their own jobs. */
export interface CommitStatus {
  /** Hexadecimal; Bitbucket shortens it. */
  readonly sha: string;
  readonly state: 'success' | 'failure';
  /** Keys of tasks, and no text of strangers. At most 140 characters, the limit of GitHub. */
  readonly text: string;
}

/** The name of the status at every provider. */
export const STATUS_NAME = 'worksync/tasks';

const LONGEST_STATUS_TEXT = 140;
const SHA = /^[0-9a-f]{7,64}$/i;
const STATUS_LINE = /^([0-9a-f]{7,64}) (success|failure) (.*)$/i;

/**
 * Returns the status that names these tasks; undefined if the head is unknown.
 * A pull request without tasks has a status too, because a required status that never comes would block it for ever.
 *
 * @param isRequired the status fails if there is no task
 */
export function statusOf(
  headSha: string | undefined,
  tasks: readonly string[],
  isRequired: boolean,
): CommitStatus | undefined {
  if (headSha === undefined || !SHA.test(headSha)) return undefined;
  if (tasks.length > 0) return { sha: headSha, state: 'success', text: textNaming(tasks) };
  if (!isRequired) return { sha: headSha, state: 'success', text: 'linked to no task' };
  const text = 'linked to no task: put the key of one into title, description or branch';
  return { sha: headSha, state: 'failure', text };
}

function textNaming(tasks: readonly string[]): string {
  const text = `linked to ${tasks.join(', ')}`;
  return text.length <= LONGEST_STATUS_TEXT ? text : `linked to ${tasks.length} tasks, ${tasks[0]} among them`;
}

/** Formats a status as one line, the form in which it is stored. */
export function formatStatus({ sha, state, text }: CommitStatus): string {
  return `${sha} ${state} ${text}`;
}

/** Parses a stored line; undefined if it is not a status. */
export function parseStatus(line: string | null): CommitStatus | undefined {
  const [, sha, state, text] = STATUS_LINE.exec(line ?? '') ?? [];
  return sha === undefined || text === undefined ? undefined : { sha, state: state as CommitStatus['state'], text };
}
