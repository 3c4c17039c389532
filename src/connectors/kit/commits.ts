import type { ZodType } from 'zod';
import { z } from 'zod';
import { asSyncError } from '../../model/errors/sync-error.ts';
import { absent } from './payload.ts';

/** GitHub lists no more commits of a pull request. */
const MOST_COMMITS = 250;
/** Characters of all messages of a pull request together. */
const MOST_TEXT = 65_536;

/** Which commit messages are wanted beside a pull request. */
interface Asked {
  /** The option of the connection: without it none are. */
  readonly commits: boolean;
  /** The head whose commits are known. */
  readonly commitsSha?: string | undefined;
}

/** The words for the option of every connector that has it. */
export const commitsOption = z
  .boolean()
  .default(false)
  .describe(
    'Whether worksync searches the messages of commits for tasks too. Each push to a pull request then costs two fetches at the provider: the pull request and its commits. At the workspace it costs only the links.',
  );

/** A text that fits has no more bytes as JSON: each of its characters is six at most. */
const MOST_JSON = 6 * MOST_TEXT + 2;

/** The message of a commit, also where the parser set it apart (`platform/lib/json-apart.ts`). One that can never fit is not read. */
export const messageText = z.union([
  z.string(),
  z.instanceof(Uint8Array).transform((json) => {
    if (json.length > MOST_JSON) return ' '.repeat(MOST_TEXT + 1);
    return JSON.parse(Buffer.from(json).toString()) as string;
  }),
]);

/** The messages, which `fetch` puts beside the provider's own fields, as `translate` reads them. */
export const commitMessages = absent(z.array(z.string()));

/**
 * Reads a list of commits page by page, up to as many as worksync takes.
 *
 * @param pages the elements of each page; a further page is requested only while more commits are wanted
 * @param messageOf reads the message of one element
 * @returns undefined where the commits cannot be read: then worksync keeps the messages that it has
 */
export async function readMessages(
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
    // The pull request itself exists: its commits are gone with a fork, or with a branch.
    if (asSyncError(error).code === 'not_found') return undefined;
    throw error;
  }
  // A message that is left out could remove a link: an incomplete list counts as none.
  return z.array(messageOf).safeParse(found.slice(0, MOST_COMMITS)).data;
}

/** The newest messages that fit. One that does not fit is left out whole: a part of a key is another key. */
export function fitMessages(newestFirst: readonly string[]): readonly string[] {
  let left = MOST_TEXT;
  return newestFirst.filter((message) => {
    if (message.length > left) return false;
    left -= message.length;
    return true;
  });
}

/**
 * A fetched pull request, with the messages of its commits where they are wanted and not known yet.
 *
 * @param head undefined where the answer does not tell it: then the commits are always read
 */
export async function withCommits(
  pull: unknown,
  head: string | undefined,
  asked: Asked,
  list: {
    pages(): AsyncIterable<readonly unknown[]>;
    readonly messageOf: ZodType<string>;
    readonly order: 'oldest first' | 'newest first';
  },
): Promise<unknown> {
  if (!asked.commits || (head !== undefined && head === asked.commitsSha)) return pull;
  const messages = await readMessages(list.pages(), list.messageOf);
  if (messages === undefined) return pull;
  const newestFirst = list.order === 'oldest first' ? messages.toReversed() : messages;
  return { ...(pull as object), commit_messages: fitMessages(newestFirst) };
}
