/** The commit status of the head of a pull request: what people see beside their own jobs. */
export interface CommitStatus {
  /** Hexadecimal; Bitbucket shortens it. */
  readonly sha: string;
  readonly state: 'success' | 'failure';
  /** For people: keys of tasks, and nothing that strangers wrote. At most 140 characters, as GitHub takes. */
  readonly text: string;
}

/** What the status is called at every provider. */
export const STATUS_NAME = 'worksync/tasks';

const LONGEST = 140;
const SHA = /^[0-9a-f]{7,64}$/i;
const WRITTEN = /^([0-9a-f]{7,64}) (success|failure) (.*)$/i;

/**
 * The status that names these tasks; undefined where the head is unknown. There is one without tasks too: a required status
 * that never comes would hold up the pull request for ever.
 *
 * @param isRequired it fails without a task
 */
export function statusOf(
  headSha: string | undefined,
  tasks: readonly string[],
  isRequired: boolean,
): CommitStatus | undefined {
  if (headSha === undefined || !SHA.test(headSha)) return undefined;
  if (tasks.length > 0) return { sha: headSha, state: 'success', text: shortened(tasks) };
  if (!isRequired) return { sha: headSha, state: 'success', text: 'linked to no task' };
  const text = 'linked to no task: put the key of one into title, description or branch';
  return { sha: headSha, state: 'failure', text };
}

function shortened(tasks: readonly string[]): string {
  const whole = `linked to ${tasks.join(', ')}`;
  return whole.length <= LONGEST ? whole : `linked to ${tasks.length} tasks, ${tasks[0]} among them`;
}

/** As one line, which a notice stores. */
export function writtenStatus({ sha, state, text }: CommitStatus): string {
  return `${sha} ${state} ${text}`;
}

export function readStatus(line: string | null): CommitStatus | undefined {
  const [, sha, state, text] = WRITTEN.exec(line ?? '') ?? [];
  return sha === undefined || text === undefined ? undefined : { sha, state: state as CommitStatus['state'], text };
}
