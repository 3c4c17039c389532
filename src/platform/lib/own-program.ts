import { existsSync, readFileSync, statSync } from 'node:fs';
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

/**
 * Returns the command that people type: in a clone npm knows the program, elsewhere the `PATH` does. Only a clone has the lock
 * file of its packages, because neither the package nor the image contains it.
 *
 * @param folder of the installation
 */
export function ownCommandOf(folder: string): string {
  return existsSync(join(folder, 'package-lock.json')) ? 'npm run -s worksync --' : 'worksync';
}

export const OWN_COMMAND = ownCommandOf(PROGRAM);

/** First words of commands. A test checks that the command line has no others. */
const COMMAND_NAMES =
  'run init once demo status wait check login logout backup restore forget plan quota held changes quarantine deliveries listen trigger items backfill sweep hooks config connections connectors translate api tasks links docs prs ci files keys audit gateway workspace store healthcheck completion generate';

/** Commands that do not take `--data` and `--config`. */
const COMMANDS_WITHOUT_PLACE = 'init demo store connectors translate ci workspace completion generate';

/** Commands of one workspace. They need `--workspace` if several are configured. */
const COMMANDS_OF_WORKSPACE = new Set(
  'plan quota held changes quarantine deliveries trigger items backfill sweep hooks connections api tasks links docs prs files keys gateway'.split(
    ' ',
  ),
);

const NAMED = new RegExp(`"worksync ((${COMMAND_NAMES.replaceAll(' ', '|')})\\b[^"]*)(?=")`, 'g');
const PLACE = /^--(?:data|config|workspace)(?:=|$)/;

/** A flag with a place, and its value, as a person types it: `--data /srv/sync`. */
type PlaceFlag = string;

let placeFlags: readonly PlaceFlag[] = [];

/**
 * Returns the flags `--data`, `--config` and `--workspace` of a command line. `--workspace` of `login` is left out, because it takes
 * several names.
 */
function placeFlagsOf(argv: readonly string[]): readonly PlaceFlag[] {
  const isLogin = argv[2] === 'login';
  return argv.flatMap((word, index) => {
    if (!PLACE.test(word) || (isLogin && word.startsWith('--workspace'))) return [];
    const [flag = '', ...rest] = word.split('=');
    const value = word.includes('=') ? rest.join('=') : argv[index + 1];
    return value === undefined ? [] : [`${flag} ${shellWord(value)}`];
  });
}

/** Makes `asTyped` add the place flags of this command line, so that the commands in texts find the same daemon. */
export function setPlaceFlags(argv: readonly string[]): void {
  placeFlags = placeFlagsOf(argv);
}

/** Quotes a word for a shell if necessary. */
export function shellWord(word: string): string {
  return /^[\w./:@-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * Returns a text for people on this installation. Messages and hints name commands as `"worksync check"` everywhere, and are
 * stored like that; this replaces them by the commands that work here. Foreign texts must not pass through it. Lines of JSON,
 * which programs read, stay unchanged.
 */
export function asTyped(text: string, own = OWN_COMMAND, place = placeFlags): string {
  if ((own === 'worksync' && place.length === 0) || !text.includes('"worksync ')) return text;
  return text.replaceAll(/^(?![{[]).*$/gm, (line) =>
    line
      .replaceAll('"worksync --help"', `"${own} --help"`)
      .replaceAll(NAMED, (_, command: string, name: string) => `"${withPlace(command, name, own, place)}`),
  );
}

/** Adds the flags that the command takes and does not have yet. */
function withPlace(command: string, name: string, own: string, place: readonly PlaceFlag[]): string {
  const takesPlace = !COMMANDS_WITHOUT_PLACE.split(' ').includes(name);
  const takes = (flag: string | undefined) => (flag === '--workspace' ? COMMANDS_OF_WORKSPACE.has(name) : takesPlace);
  const missing = place.filter((given) => {
    const [flag] = given.split(' ');
    return takes(flag) && !command.includes(` ${flag} `);
  });
  const flags = missing.map((flag) => ` ${flag}`).join('');
  if (command !== 'run' || own === 'worksync') return `${own} ${command}${flags}`;
  return `npm start${flags === '' ? '' : ` --${flags}`}`;
}

/** Returns a command of worksync, such as `login`, as it is typed here. @param workspace see `ofWorkspace` */
export function commandAsTyped(command: string, workspace?: string): string {
  return asTyped(ofWorkspace(`"worksync ${command}"`, workspace)).slice(1, -1);
}

/** Completes the commands of a text that need to name the workspace. @param workspace absent: it is the only one */
export function ofWorkspace(text: string, workspace: string | undefined): string {
  if (workspace === undefined) return text;
  const flag = ` --workspace ${shellWord(workspace)}`;
  return text.replaceAll(NAMED, (whole, command: string, name: string) =>
    COMMANDS_OF_WORKSPACE.has(name) && !command.includes(' --workspace ') ? whole + flag : whole,
  );
}

/** Replaces the commands in the help of a command, and in its examples. */
export function helpAsTyped(help: string, own = OWN_COMMAND): string {
  return asTyped(help, own, []).replaceAll(/^(Example: | {9})(source <\()?worksync /gm, `$1$2${own} `);
}
