import { readFileSync, statSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { dirname, join, resolve } from 'node:path';

/**
 * The folder of the installation: of the repository, or of the installed package. `config/` and the pages of `src/` lie below
 * both, while the code of a package lies elsewhere than its sources.
 */
export const PROGRAM = dirname(findPackageJSON(import.meta.url) as string);

interface Manifest {
  readonly version: string;
  /** The commit that a package or an image was built from. */
  readonly gitHead?: string;
}

let known: string | undefined;

/** The version of this program with its commit, as Semantic Versioning writes it: `0.1.0+86c373fc`. */
export function programVersion(): string {
  known ??= versionOf(PROGRAM);
  return known;
}

function versionOf(program: string): string {
  const { version, gitHead } = JSON.parse(readFileSync(join(program, 'package.json'), 'utf8')) as Manifest;
  return `${version}+${(gitHead ?? commitOf(program))?.slice(0, SHORT) ?? 'unknown'}`;
}

/** Digits of a commit that are shown. */
const SHORT = 8;

/** Returns the commit that is checked out in a folder; undefined if it is no checkout, or its files cannot be read. */
export function commitOf(folder: string): string | undefined {
  try {
    const git = gitFolderOf(join(folder, '.git'));
    const head = textOf(join(git, 'HEAD'));
    const [, ref] = /^ref: (.+)$/.exec(head) ?? [];
    return ref === undefined ? head : commitOfRef(commonFolderOf(git), ref);
  } catch {
    return undefined;
  }
}

/** `.git` is a file in a linked work tree. */
function gitFolderOf(path: string): string {
  return statSync(path).isDirectory() ? path : resolve(path, '..', textOf(path).replace('gitdir: ', ''));
}

function commonFolderOf(git: string): string {
  try {
    return resolve(git, textOf(join(git, 'commondir')));
  } catch {
    return git;
  }
}

function commitOfRef(git: string, ref: string): string | undefined {
  try {
    return textOf(join(git, ref));
  } catch {
    const packed = textOf(join(git, 'packed-refs')).split('\n');
    return packed.find((line) => line.endsWith(` ${ref}`))?.split(' ')[0];
  }
}

function textOf(file: string): string {
  return readFileSync(file, 'utf8').trim();
}
