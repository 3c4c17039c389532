import { SyncError } from '../../model/errors.ts';

/** The repository of the example that works as it is. */
export const SAMPLE_REPOSITORY = 'octokit/webhooks.js';
/** Separates the values of a workspace file. */
const BETWEEN_VALUES = /[\s"'`,[\]{}]+/;
/** A key that an example leaves out, such as `# host: gitlab.example.com`. */
const COMMENTED_KEY = /^(\s*)# ([a-z]\w*: .*)$/;
const COMMENTED_HOST = /^[ \t]*# host: (\S+)$/m;

/** The values of a draft that everybody must replace, apart from the address of the workspace. */
export function placeholdersIn(content: string): readonly string[] {
  return placeholdersAmong(valuesOf(uncommented(content)));
}

/** The host of a server of one's own, in a comment; undefined in a draft that has no such key. */
export function hostPlaceholder(content: string): string | undefined {
  return COMMENTED_HOST.exec(content)?.[1];
}

export function uncommented(content: string): string {
  return content
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n');
}

/** Puts a value in the place of a placeholder. Uncomments the keys that have it, if it stands in comments only. */
export function withValue(content: string, placeholder: string, value: string): string {
  const isInUse = uncommented(content).includes(placeholder);
  const lines = content.split('\n').map((line) => {
    const [, indent, key = ''] = COMMENTED_KEY.exec(line) ?? [];
    return !isInUse && valuesOf(key).includes(placeholder) ? `${indent}${key}` : line;
  });
  return lines.join('\n').replaceAll(placeholder, () => value);
}

export function withValues(content: string, values: Readonly<Record<string, string>>): string {
  return Object.entries(values).reduce(
    (filled, [placeholder, value]) => withValue(filled, placeholder, value),
    content,
  );
}

/** Throws `usage` for a value that has no effect in the draft. Accepts a value that an earlier run has put in place of its placeholder. */
export function refuseWithoutEffect(content: string, values: Readonly<Record<string, string>>): void {
  const active = uncommented(content);
  const wasSet = (placeholder: string, value: string) =>
    (isPlaceholder(placeholder) || placeholder === SAMPLE_REPOSITORY) && value !== '' && active.includes(value);
  const lost = Object.entries(values).find(
    ([placeholder, value]) =>
      uncommented(withValue(content, placeholder, value)) === active && !wasSet(placeholder, value),
  );
  if (lost === undefined) return;
  const known = [
    ...placeholdersAmong([...valuesOf(active), ...content.split('\n').flatMap(commentedValues)]),
    ...(active.includes(SAMPLE_REPOSITORY) ? [SAMPLE_REPOSITORY] : []),
  ];
  throw new SyncError('usage', `--set ${lost.join('=')}: the draft has no placeholder ${lost[0]}`, {
    hint: `Its placeholders: ${known.join(', ') || 'none'}.`,
  });
}

function commentedValues(line: string): readonly string[] {
  return valuesOf(COMMENTED_KEY.exec(line)?.[2] ?? '');
}

function valuesOf(text: string): readonly string[] {
  return text.split(BETWEEN_VALUES).map((value) => value.replace(/:$/, ''));
}

function placeholdersAmong(values: readonly string[]): readonly string[] {
  const found = new Set(values.filter(isPlaceholder));
  return [...found].filter((text) => ![...found].some((other) => text.startsWith(`${other}/`)));
}

/** A UUID that an example has in place of an id of its own. */
const ZERO_UUID = /^0{8}-0{4}-[04]0{3}-[08]0{3}-0{12}$/;

function isPlaceholder(text: string): boolean {
  return text.startsWith('your-') || text === 'YOURKEY' || text.includes('example.com') || ZERO_UUID.test(text);
}
