/** GitLab's own rule: one or more of these at the beginning of the title, in any case. */
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
