import type { DesiredComment, PostedComment } from '../../model/notice.ts';

/** One vendor's comments on one item. Which comment is worksync's own, and when it is edited, is the same for all vendors. */
export interface Comments<Stored> {
  /** Returns the text in the vendor's form. Absent: the words of the marker are its last line, because the vendor shows or drops HTML. */
  write?(text: string, words: string): string;
  /** Returns the visible part of a stored text, for comparison. Absent: the text, whose lines may end with CRLF, as forms write them. */
  plain?(stored: string): string;
  pages(): AsyncIterable<readonly Stored[]>;
  textOf(comment: Stored): string;
  authorOf(comment: Stored): string | undefined;
  /** Resolves with the account of this credential; undefined if it is unknown, so that no comment counts as our own. */
  ownAuthor(): Promise<string | undefined>;
  post(text: string): Promise<unknown>;
  edit(comment: Stored, text: string): Promise<unknown>;
  /** Returns the comment with this text, as far as an answer or the existing comment describes it. */
  toComment(of: unknown, text: string): PostedComment | undefined;
}

/**
 * Posts a comment, or updates the one that carries the marker and has this credential as its author. Other people's comments may
 * quote the marker. A correction is only updated, never posted.
 */
export async function upsertComment<Stored>(
  { marker, text, isCorrection = false }: DesiredComment,
  comments: Comments<Stored>,
): Promise<PostedComment | undefined> {
  const words = wordsOfMarker(marker);
  const { write = (body, last) => `${body}\n\n${last}`, plain = (stored) => stored.replace(/\r\n?/g, '\n').trim() } =
    comments;
  const desired = write(text, words);
  const existing = await findOwn(words, plain, comments);
  if (existing === undefined && isCorrection) return undefined;
  if (existing === undefined) return comments.toComment(await comments.post(desired), desired);
  const isEqual = plain(comments.textOf(existing)) === plain(desired);
  return comments.toComment(isEqual ? existing : await comments.edit(existing, desired), desired);
}

/**
 * Posts or updates a comment at a vendor that hides HTML comments, so that the marker is written unchanged. If the vendor does not
 * report the account of this credential, the marker alone identifies our comment.
 */
export async function upsertHiddenComment<Stored>(
  desired: DesiredComment,
  comments: Omit<Comments<Stored>, 'write' | 'plain' | 'toComment'>,
): Promise<undefined> {
  let acceptsAnyAuthor = false;
  await upsertComment<Stored>(desired, {
    ...comments,
    write: (text) => (text.includes(desired.marker) ? text : `${text}\n\n${desired.marker}`),
    plain: (stored) => stored,
    async ownAuthor() {
      const author = await comments.ownAuthor();
      acceptsAnyAuthor = author === undefined;
      return author ?? ANY_AUTHOR;
    },
    authorOf: (comment) => (acceptsAnyAuthor ? ANY_AUTHOR : comments.authorOf(comment)),
    toComment: () => undefined,
  });
}

const ANY_AUTHOR = 'anybody';

async function findOwn<Stored>(
  words: string,
  plain: (stored: string) => string,
  comments: Comments<Stored>,
): Promise<Stored | undefined> {
  let author: string | undefined;
  for await (const page of comments.pages()) {
    for (const comment of page) {
      if (!plain(comments.textOf(comment)).includes(words)) continue;
      author ??= await comments.ownAuthor();
      if (author !== undefined && comments.authorOf(comment) === author) return comment;
    }
  }
  return undefined;
}

/** Returns the words of a marker (`<!-- words -->`), for vendors that show or drop HTML comments. */
export function wordsOfMarker(marker: string): string {
  return marker.replace('<!--', '').replace('-->', '').trim();
}
