/** GitLab's own rule: a title that begins with one or more of these, in any case, is that of a draft. */
const MARKS = /^(?:\s*(?:\[draft\]|\(draft\)|draft:))+\s*/i;

export function isDraft(title: string): boolean {
  return MARKS.test(title);
}

export function asDraft(title: string): string {
  return isDraft(title) ? title : `Draft: ${title}`;
}

export function asReady(title: string): string {
  return title.replace(MARKS, '');
}
