import type { ZodType } from 'zod';
import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import { absent } from './fields.ts';

/** GitHub tells no more than these of a pull request. */
const MOST_COMMITS = 250;
/** Characters of all messages of a pull request together. */
const MOST_TEXT = 65_536;

/** Which messages of commits are wanted beside a pull request. */
interface Asked {
  /** Whether any are. */
  readonly commits: boolean;
  /** The head whose commits are known. */
  readonly commitsSha?: string | undefined;
}

/** The words for the option of every connector that has it. */
export const commitsOption = z
  .boolean()
  .default(false)
  .describe(
    'Whether messages of commits are searched for tasks too. Each push to a pull request then costs a fetch of it and of its commits at the provider, and at the workspace only what the links need.',
  );

/** As JSON a text that fits has no more bytes: each character is six at most. */
const MOST_JSON = 6 * MOST_TEXT + 2;

/** The message of a commit, also where it came apart (`lib/json-apart.ts`). What can never fit is not read. */
export const messageText = z.union([
  z.string(),
  z.instanceof(Uint8Array).transform((json) => {
    if (json.length > MOST_JSON) return ' '.repeat(MOST_TEXT + 1);
    return JSON.parse(Buffer.from(json).toString()) as string;
  }),
]);

/** How `fetch` puts them beside the fields of the provider, for `translate`. */
export const commitMessages = absent(z.array(z.string()));

/**
 * Reads a list of commits along its pages, as far as it is taken.
 *
 * @param pages the elements of each page; asked for the next one only where that is wanted
 * @param messageOf reads the message of one element
 * @returns undefined where the commits cannot be told: then what was known of them stays
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
    // The pull request itself was found: its commits went with a fork, or with a branch.
    if (asSyncError(error).code === 'not_found') return undefined;
    throw error;
  }
  // One that is left out could take a link away: without all of them there is no list.
  return z.array(messageOf).safeParse(found.slice(0, MOST_COMMITS)).data;
}

/** Newest first, as many as fit. One that does not is left out whole: a part of a key is another key. */
export function fitting(newestFirst: readonly string[]): readonly string[] {
  let left = MOST_TEXT;
  return newestFirst.filter((message) => {
    if (message.length > left) return false;
    left -= message.length;
    return true;
  });
}

/** Whether the commits of a pull request are to be read; those of a head that cannot be told are. */
function isNewHead(head: string | undefined, { commitsSha }: { readonly commitsSha?: string | undefined }): boolean {
  return head === undefined || head !== commitsSha;
}

/** The body of a fetched pull request, with the messages where they are known. */
function withMessages(pull: unknown, messages: readonly string[] | undefined): unknown {
  return messages === undefined ? pull : { ...(pull as object), commit_messages: messages };
}

/**
 * A fetched pull request, with the messages of its commits where they are wanted and not known.
 *
 * @param head undefined where it cannot be told
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
  if (!asked.commits || !isNewHead(head, asked)) return pull;
  const messages = await readMessages(list.pages(), list.messageOf);
  return withMessages(pull, messages && fitting(list.order === 'oldest first' ? messages.toReversed() : messages));
}
