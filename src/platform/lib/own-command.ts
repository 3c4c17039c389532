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

const NAMED = new RegExp(`"worksync (?=(?:${COMMAND_NAMES.replaceAll(' ', '|')}|--help)\\b)`, 'g');

/**
 * A text as a person is to read it here. Messages and hints name commands as `"worksync check"` wherever they are written, and are
 * stored like that; where they are shown, this puts in what works here. Texts of other people must not pass through it. Lines of
 * JSON, which programs read, stay as they are.
 */
export function asTyped(text: string, own = OWN_COMMAND): string {
  if (own === 'worksync' || !text.includes('"worksync ')) return text;
  return text.replaceAll(/^(?![{[]).*$/gm, (line) =>
    line.replaceAll('"worksync run"', '"npm start"').replaceAll(NAMED, `"${own} `),
  );
}

/** The same of the help of a command, with its examples. */
export function helpAsTyped(help: string, own = OWN_COMMAND): string {
  return asTyped(help, own).replaceAll(/^(Example: | {9})(source <\()?worksync /gm, `$1$2${own} `);
}
