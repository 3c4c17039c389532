import { execFileSync } from 'node:child_process';

/**
 * Fails if the subject of a commit since this rule was added is no Conventional Commit of at most 72 characters. A clone without
 * the history has nothing to check.
 */
const FORM = /^(?:feat|fix|perf|refactor|docs|test|build|ci|chore|revert)(?:\([a-z\d-]+\))?!?: [^A-Z\s].*[^.\s]$/;
const LONGEST = 72;

const git = (...given: readonly string[]) => execFileSync('git', given, { encoding: 'utf8' }).trim();

const added = git('log', '--diff-filter=A', '--format=%H', '--', '.ci/commit-subjects.ts').split('\n').at(-1);
const subjects = added ? git('log', '--no-merges', '--format=%s', `${added}..HEAD`).split('\n').filter(Boolean) : [];
const wrong = subjects.filter((subject) => subject.length > LONGEST || !FORM.test(subject));
if (wrong.length > 0) {
  const rule = `Commit subjects have the form "type(scope): summary" with at most ${LONGEST} characters:`;
  process.stderr.write(`${[rule, ...wrong].join('\n  ')}\n`);
  process.exitCode = 1;
}
