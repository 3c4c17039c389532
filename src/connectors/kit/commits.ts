import { type ZodType, z } from 'zod';
import { asSyncError } from '../../model/errors.ts';
import { absent } from './payload.ts';

/** GitHub lists no more commits of a pull request. */
const MOST_COMMITS = 250;
/** Characters of all messages of a pull request together. */
const MOST_TEXT = 65_536;
/** Bytes of a message that fits, as JSON, in which each character takes at most six. */
const MOST_JSON = 6 * MOST_TEXT + 2;

export const commitsOption = z
  .boolean()
  .default(false)
  .describe(
    'Whether worksync searches the messages of commits for tasks too. Each push to a pull request then costs two fetches at the provider: the pull request and its commits. At the workspace it costs only the links.',
  );

/**
 * The message of a commit, also if the parser set it apart as JSON (`platform/lib/shape.ts`). A message that is too long to fit
 * is not parsed; another text that is too long replaces it.
 */
export const messageText = z.union([
  z.string(),
  z.instanceof(Uint8Array).transform((json) => {
    if (json.length > MOST_JSON) return ' '.repeat(MOST_TEXT + 1);
    return JSON.parse(Buffer.from(json).toString()) as string;
  }),
]);

/** The messages that `fetch` stores beside the provider's own fields, as `translate` reads them. */
export const commitMessages = absent(z.array(z.string()));

interface CommitList {
  /** Yields the commits page by page. A further page is requested only while more commits fit. */
  pages(): AsyncIterable<readonly unknown[]>;
  readonly messageOf: ZodType<string>;
  readonly order: 'oldest first' | 'newest first';
}

/**
 * Adds the messages of its commits to a fetched pull request, unless the option is off or they are known for this head.
 *
 * @param head undefined if the answer does not contain it: then the commits are always read
 */
export async function withCommits(
  pull: unknown,
  head: string | undefined,
  { commits, commitsSha }: { readonly commits: boolean; readonly commitsSha?: string | undefined },
  list: CommitList,
): Promise<unknown> {
  if (!commits || (head !== undefined && head === commitsSha)) return pull;
  const messages = await readMessages(list.pages(), list.messageOf);
  if (messages === undefined) return pull;
  const newestFirst = list.order === 'oldest first' ? messages.toReversed() : messages;
  return { ...(pull as object), commit_messages: fitMessages(newestFirst) };
}

/** Resolves with the messages of at most 250 commits; undefined if they cannot be read, so that the known messages stay. */
async function readMessages(
  pages: AsyncIterable<readonly unknown[]>,
  messageOf: ZodType<string>,
): Promise<readonly string[] | undefined> {
  const found: unknown[] = [];
  try {
    for await (const page of pages) {
      found.push(...page);
      if (found.length >= MOST_COMMITS) break;
    }
  } catch (error) {
    // The pull request itself exists: its commits disappeared with a fork or with a branch.
    if (asSyncError(error).code === 'not_found') return undefined;
    throw error;
  }
  // An incomplete list counts as none, because a missing message could remove a link.
  return z.array(messageOf).safeParse(found.slice(0, MOST_COMMITS)).data;
}

/** Returns the newest messages that fit. Omits a message that does not fit as a whole, because a part of a key is another key. */
function fitMessages(newestFirst: readonly string[]): readonly string[] {
  let left = MOST_TEXT;
  return newestFirst.filter((message) => {
    if (message.length > left) return false;
    left -= message.length;
    return true;
  });
}

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
