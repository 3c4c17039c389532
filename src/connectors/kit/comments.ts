import type { DesiredComment, PostedComment } from '../../model/notice.ts';

/** How one vendor stores comments. Which comment is ours, and when worksync edits it, is the same everywhere. */
export interface Comments<Standing> {
  /** The text as the vendor takes it; `words` are those of the marker, for where it cannot be hidden. */
  write(text: string, words: string): string;
  /** What people see of a stored text, for comparing. */
  plain(stored: string): string;
  /** Comments along their pages. */
  pages(): AsyncIterable<readonly Standing[]>;
  textOf(standing: Standing): string;
  authorOf(standing: Standing): string | undefined;
  /** Who this credential is; undefined where nobody knows, and no comment is ours then. */
  ownAuthor(): Promise<string | undefined>;
  /** Both resolve with what the vendor answers. */
  post(text: string): Promise<unknown>;
  edit(standing: Standing, text: string): Promise<unknown>;
  /** The comment with this text, as far as an answer or the comment that was found tells of it. */
  toComment(of: unknown, text: string): PostedComment | undefined;
}

/** Posts a comment, or updates the one of this credential that carries the marker: somebody else may quote it. */
export async function upsertComment<Standing>(
  { marker, text, isCorrection = false }: DesiredComment,
  comments: Comments<Standing>,
): Promise<PostedComment | undefined> {
  const words = wordsOfMarker(marker);
  const wanted = comments.write(text, words);
  const standing = await findOwn(words, comments);
  if (standing === undefined && isCorrection) return undefined;
  if (standing === undefined) return comments.toComment(await comments.post(wanted), wanted);
  const isSame = comments.plain(comments.textOf(standing)) === comments.plain(wanted);
  return comments.toComment(isSame ? standing : await comments.edit(standing, wanted), wanted);
}

/**
 * The same for vendors whose texts hide HTML comments: the marker goes into the text as it is. Where the vendor does not tell
 * who this credential is, the marker alone says that a comment is ours.
 */
export async function upsertHiddenComment<Standing>(
  given: DesiredComment,
  comments: Omit<Comments<Standing>, 'write' | 'plain' | 'toComment'>,
): Promise<undefined> {
  let isAnybody = false;
  await upsertComment<Standing>(given, {
    ...comments,
    write: (text) => (text.includes(given.marker) ? text : `${text}\n\n${given.marker}`),
    plain: (stored) => stored,
    async ownAuthor() {
      const me = await comments.ownAuthor();
      isAnybody = me === undefined;
      return me ?? ANYBODY;
    },
    authorOf: (standing) => (isAnybody ? ANYBODY : comments.authorOf(standing)),
    toComment: () => undefined,
  });
}

const ANYBODY = 'anybody';

async function findOwn<Standing>(words: string, comments: Comments<Standing>): Promise<Standing | undefined> {
  let me: string | undefined;
  for await (const page of comments.pages()) {
    for (const each of page) {
      if (!comments.plain(comments.textOf(each)).includes(words)) continue;
      me ??= await comments.ownAuthor();
      if (me !== undefined && comments.authorOf(each) === me) return each;
    }
  }
  return undefined;
}

/** The words of a marker (`<!-- words -->`), for where a comment of HTML would be seen or lost. */
export function wordsOfMarker(marker: string): string {
  return marker.replace('<!--', '').replace('-->', '').trim();
}
