/** Something that is wrong at a place of a file. Lines and columns count from 1. */
export interface Problem extends Place {
  readonly message: string;
  /** The value that was probably intended. */
  readonly suggestion?: string;
  /** A key is missing or unknown. That may be because of a fault of the YAML elsewhere in the file. */
  readonly dependsOnLayout?: boolean;
}

export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The keys whose entries are rules. */
const RULES: ReadonlySet<string> = new Set(['rules.links', 'rules.triage', 'rules.workflow.rules']);

/** Returns the name of a key for people: `rule 2 of rules.triage: create`. Entries of lists count from 1. */
export function pathText(path: readonly PropertyKey[]): string {
  const at = path.findIndex((key) => typeof key === 'number');
  const list = path.slice(0, at).join('.');
  if (at < 0 || !RULES.has(list)) return keyText(path);
  const rule = `rule ${Number(path[at]) + 1} of ${list.replace(/\.rules$/, '')}`;
  return [rule, ...(path.length > at + 1 ? [keyText(path.slice(at + 1))] : [])].join(': ');
}

function keyText(path: readonly PropertyKey[]): string {
  return path
    .map((key, at) => (typeof key === 'number' ? `#${key + 1}` : `${at > 0 ? '.' : ''}${String(key)}`))
    .join('');
}

/** Number of problems after which the search in a file stops: people correct those first. */
export const MOST_PROBLEMS = 100;

/** Returns the first problems of a list, and computes no others. */
export function firstProblems(problems: Iterable<Problem>, most = MOST_PROBLEMS): readonly Problem[] {
  return Iterator.from(problems).take(most).toArray();
}

/** `file:line:column: message (did you mean "x"?)` */
function problemText(problem: Problem): string {
  const { file, line, column, message, suggestion } = problem;
  const hint = suggestion === undefined ? '' : ` (did you mean "${suggestion}"?)`;
  return `${file}:${line}:${column}: ${message}${hint}`;
}

/** One line per problem, in the order of the files, each once. */
export function problemLines(problems: readonly Problem[]): readonly string[] {
  const files = [...new Set(problems.map((problem) => problem.file))];
  const sorted = problems.toSorted(
    (a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line || a.column - b.column,
  );
  return [...new Set(sorted.map(problemText))];
}
