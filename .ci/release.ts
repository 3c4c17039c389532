import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { TOP } from './supply/lock.ts';

/**
 * Steps of a release that need the name of the repository, `<owner>/<name>`:
 *
 *   version <repository> <tag>  fails if the commits since the last tag need a higher version
 *   package <repository>        names the built package `@<owner>/worksync`
 *   notes <repository> <tag>    prints the release notes: how to install, and the commits since the last tag
 *   readme <repository> <tag>   puts the lines for `npx` and `docker run` into README
 */

/** The package of this repository's owner. The bare name belongs to nobody yet, so whoever takes it could be run in our place. */
export function packageName(of: string): string {
  const [, owner] = /^([\w.-]+)\/[\w.-]+$/.exec(of) ?? [];
  if (owner === undefined)
    throw new Error(`"${of}" is no <owner>/<name> of a repository: the package would have no scope`);
  return `@${owner.toLowerCase()}/worksync`;
}

/** How to start a release without a clone. */
export function installLines(of: string): string {
  return [
    '```sh',
    `npx ${packageName(of)} run`,
    `docker run --rm -p 127.0.0.1:8080:8080 -e WORKSYNC_CONFIG= ghcr.io/${of.toLowerCase()}`,
    '```',
  ].join('\n');
}

const BREAKING = /^\w+(?:\([^)]*\))?!:/;

/** @returns the least version that the policy of `config/operating.md` allows after these commits */
export function leastVersion(last: string, subjects: readonly string[]): string {
  const [major = 0, minor = 0, patch = 0] = last.split('.').map(Number);
  const breaks = subjects.some((subject) => BREAKING.test(subject));
  if (breaks && major > 0) return `${major + 1}.0.0`;
  const adds = subjects.some((subject) => /^feat\b/.test(subject));
  return breaks || adds ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`;
}

function refuseLowVersion(tag: string): void {
  const { last, subjects } = commitsOf(tag);
  if (last === undefined) return;
  const least = leastVersion(last.slice(1), subjects);
  if (tag.slice(1).localeCompare(least, 'en', { numeric: true }) < 0)
    throw new Error(`${tag} is too low for the commits since ${last}: at least v${least}`);
}

const KINDS: readonly (readonly [type: string, title: string])[] = [
  ['feat', 'Added'],
  ['fix', 'Fixed'],
  ['perf', 'Faster'],
];

/** @param subjects of commits since the last release, newest first */
export function releaseNotes(of: string, subjects: readonly string[]): string {
  const breaking = subjects.filter((subject) => BREAKING.test(subject));
  const sections = KINDS.map(
    ([type, title]) => [title, subjects.filter((each) => new RegExp(`^${type}\\b`).test(each))] as const,
  );
  const all = [['Breaking', breaking] as const, ...sections].filter(([, lines]) => lines.length > 0);
  return [installLines(of), ...all.map(([title, lines]) => `## ${title}\n\n${lines.map(lineOf).join('\n')}`)].join(
    '\n\n',
  );
}

/** `feat(init): read .env` becomes `- **init**: read .env`. */
function lineOf(subject: string): string {
  const [, scope, summary] = /^\w+(?:\(([^)]*)\))?!?: (.*)$/.exec(subject) ?? [];
  return scope === undefined ? `- ${summary}` : `- **${scope}**: ${summary}`;
}

const MARKS = /<!-- install -->\n[\s\S]*?<!-- \/install -->/;

/** README with the lines of a release in the place that it keeps for them. */
export function withInstallLines(readme: string, of: string): string {
  if (!MARKS.test(readme)) throw new Error('README has no place for the lines of a release (<!-- install -->)');
  return readme.replace(MARKS, () => `<!-- install -->\n\n${installLines(of)}\n\n<!-- /install -->`);
}

/** Subjects of the commits since the last release, newest first; `last` is absent for the first release. */
function commitsOf(release: string): { readonly last: string | undefined; readonly subjects: readonly string[] } {
  const git = (...given: readonly string[]) => execFileSync('git', given, { encoding: 'utf8', cwd: TOP }).trim();
  const tags = git('tag', '--merged', release, '--sort=-creatordate', '--list', 'v*').split('\n');
  const last = tags.find((each) => each !== '' && each !== release);
  const range = last === undefined ? release : `${last}..${release}`;
  return { last, subjects: git('log', '--no-merges', '--format=%s', range).split('\n') };
}

function nameBuiltPackage(repository: string): void {
  const file = join(TOP, 'dist/package.json');
  // Without a scope the package is private, so that nobody publishes it by mistake.
  const { private: _, ...manifest } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  const url = `git+https://github.com/${repository}.git`;
  const named = { ...manifest, name: packageName(repository), repository: { type: 'git', url } };
  writeFileSync(file, `${JSON.stringify(named, null, 2)}\n`);
}

function main([command, repository = '', tag = '']: readonly string[]): void {
  if (command === 'version') refuseLowVersion(tag);
  else if (command === 'package') nameBuiltPackage(repository);
  else if (command === 'notes') process.stdout.write(`${releaseNotes(repository, commitsOf(tag).subjects)}\n`);
  else if (command === 'readme') {
    const file = join(TOP, 'README.md');
    writeFileSync(file, withInstallLines(readFileSync(file, 'utf8'), repository));
  } else throw new Error(`"${command}" is no step of a release`);
}

if (import.meta.main) main(process.argv.slice(2));
