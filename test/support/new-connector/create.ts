import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Names, namesOf } from './names.ts';
import { registrations } from './registrations.ts';

const TEMPLATE = join(import.meta.dirname, 'template');

/** What is wrong with the request, for the person who made it. */
export class Refused extends Error {}

/**
 * Writes the files of a new tracker and registers it wherever connectors are listed. Nothing is written where the id
 * cannot be used. Throws `Refused`.
 *
 * @param top the folder of the project
 * @returns the files that were written or changed, relative to `top`
 */
export function createConnector(top: string, id: string): readonly string[] {
  const names = namesOf(id);
  if (!names) throw new Refused(`"${id}" is no usable id: write lower-case words with dashes, as azure-boards`);
  if (existsSync(join(top, 'src/connectors', id))) throw new Refused(`src/connectors/${id} is there already`);
  const edited = registrations(names).map(
    ({ path, edit }) => [path, edit(readFileSync(join(top, path), 'utf8'))] as const,
  );
  const made = filesOf(names);
  for (const [path, text] of [...made, ...edited]) {
    mkdirSync(dirname(join(top, path)), { recursive: true });
    writeFileSync(join(top, path), text);
  }
  const paths = [...made, ...edited].map(([path]) => path);
  format(top, paths);
  run(top, process.execPath, ['src/main.ts', 'generate']);
  return paths;
}

/** The template under its final names: `__id__.ts.txt` becomes `linear.ts`, and so do the words in it. */
function filesOf(names: Names): readonly (readonly [path: string, text: string])[] {
  return readdirSync(TEMPLATE, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.txt'))
    .map((path) => [
      filled(path.slice(0, -'.txt'.length), names),
      filled(readFileSync(join(TEMPLATE, path), 'utf8'), names),
    ]);
}

function filled(text: string, names: Names): string {
  return Object.entries(names).reduce((so, [word, value]) => so.replaceAll(`__${word}__`, value), text);
}

/** Long names break lines elsewhere than short ones. */
function format(top: string, paths: readonly string[]): void {
  const written = paths.filter((path) => /\.(?:ts|md)$/.test(path));
  run(top, join(top, 'node_modules/.bin/biome'), ['check', '--write', ...written]);
}

function run(cwd: string, command: string, args: readonly string[]): void {
  execFileSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
}
