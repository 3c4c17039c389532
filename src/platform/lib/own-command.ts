import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { PROGRAM } from './program-folder.ts';

/**
 * What people type before the name of a command: in a clone npm knows the program, elsewhere the `PATH` does. Only a clone has
 * the lock file of its packages: neither the package nor the image brings it.
 *
 * @param folder of the installation
 */
export function ownCommandOf(folder: string): string {
  return existsSync(join(folder, 'package-lock.json')) ? 'npm run -s worksync --' : 'worksync';
}

export const OWN_COMMAND = ownCommandOf(PROGRAM);

/** First words of commands. The command line has no others, as a test says. */
export const COMMAND_NAMES =
  'run init once demo status wait check login logout backup restore forget plan quota held changes quarantine deliveries listen trigger items backfill sweep hooks config connections connectors translate tasks links docs prs ci files keys audit gateway workspace store healthcheck completion generate';

/** Commands that do not take `--data` and `--config`. */
export const COMMANDS_WITHOUT_PLACE = 'init demo store connectors translate ci workspace completion generate';

/** Commands of one workspace. They need `--workspace` if several are configured. */
export const COMMANDS_OF_WORKSPACE = new Set(
  'plan quota held changes quarantine deliveries trigger items backfill sweep hooks connections tasks links docs prs files keys gateway'.split(
    ' ',
  ),
);

const NAMED = new RegExp(`"worksync ((${COMMAND_NAMES.replaceAll(' ', '|')})\\b[^"]*)(?=")`, 'g');
const PLACE = /^--(?:data|config|workspace)(?:=|$)/;

/** A flag that says where, with its value, as a person types it: `--data /srv/sync`. */
export type PlaceFlag = string;

let placeFlags: readonly PlaceFlag[] = [];

/**
 * Returns the flags `--data`, `--config` and `--workspace` of a command line. `--workspace` of `login` is left out, because it takes
 * several names.
 */
export function placeFlagsOf(argv: readonly string[]): readonly PlaceFlag[] {
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
 * A text as a person is to read it here. Messages and hints name commands as `"worksync check"` wherever they are written, and are
 * stored like that; where they are shown, this puts in what works here. Texts of other people must not pass through it. Lines of
 * JSON, which programs read, stay as they are.
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

/** The same of the help of a command, with its examples. */
export function helpAsTyped(help: string, own = OWN_COMMAND): string {
  return asTyped(help, own, []).replaceAll(/^(Example: | {9})(source <\()?worksync /gm, `$1$2${own} `);
}
