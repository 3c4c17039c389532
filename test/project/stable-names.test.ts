import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const TOP = join(import.meta.dirname, '../..');

interface Stored {
  /** Where the keys are stored, or which message contains them. */
  readonly stored: string;
  readonly file: string;
  readonly type: string;
  readonly keys: readonly string[];
}

/** Keys that a database, a file or another process contains: no rename may change them without a migration. */
const STABLE = JSON.parse(readFileSync(join(TOP, 'src/store/stable-names.json'), 'utf8')) as readonly Stored[];

/** The members of an interface that is declared over several lines. */
function membersOf(text: string, type: string): readonly string[] {
  const declared = text.slice(text.indexOf(`interface ${type}`));
  const body = declared.slice(declared.indexOf('{\n') + 2);
  const members = body.slice(0, body.search(/^\}/m)).matchAll(/^ {2}(?:readonly )?(\w+)\??[:(]/gm);
  return Array.from(members, ([, name]) => name as string);
}

it.each(STABLE)('$type in $stored keeps its keys', ({ file, type, keys }) => {
  expect(membersOf(readFileSync(join(TOP, file), 'utf8'), type)).toEqual(keys);
});
