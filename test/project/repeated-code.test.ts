import { globSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

/** Code that two vendors' folders share belongs into `kit/`, where a rule that loses data when wrong is proved once. */

const CONNECTORS = join(import.meta.dirname, '../../src/connectors');
/** Lines, without comments, imports and mere lists. */
const LEAST = 8;

/** A line of code as its shape: names and texts aside, since a copy is often a copy under other names. */
interface Line {
  readonly shape: string;
  /** From 1. */
  readonly number: number;
}

const TOKEN =
  /\/\/.*|\/\*[\s\S]*?\*\/|`(?:[^`\\]|\\.)*`|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|[A-Za-z_$][\w$]*|\d[\w.]*|\n|\S/g;
const KEYWORDS: ReadonlySet<string> = new Set(
  'as async await break case catch class const continue do else export extends false finally for from function if import in instanceof interface let new null of readonly return satisfies throw true try type typeof undefined while yield'.split(
    ' ',
  ),
);

/** Lines of a list, as `title: 'Jira',` and `['new', 'open'],`: names and texts aside nothing is left of them. */
const LISTED =
  /^(?:name :|text :)? ?(?:(?:name|text|number|true|false|null)(?: \.\.? ?name)*|\[ (?:(?:text|name|number) ,? ?)+\]) ?[,;]?$/;

/** Words that a declared option is described by: its field is the vendor's, whatever stands around it. */
const DESCRIBED = /^(?:\. name \( (?:(?:text|name|true|false|number|\[ \]) )?\)(?: ,)?|\. name \(|\) ,)$/;

/** Without comments, imports, lists and empty lines. */
function readShapes(text: string): readonly Line[] {
  const lines: Line[] = [];
  let shape: string[] = [];
  let number = 1;
  let isImport = false;
  for (const [token] of text.matchAll(TOKEN)) {
    if (shape.length === 0 && token === 'import') isImport = true;
    if (token === '\n') {
      if (shape.length > 0 && !isImport && !isData(shape.join(' '))) lines.push({ shape: shape.join(' '), number });
      if (shape.at(-1) === ';') isImport = false;
      shape = [];
    } else if (!token.startsWith('//') && !token.startsWith('/*')) shape.push(shapeOf(token));
    number += token.split('\n').length - 1;
  }
  return lines;
}

function isData(shape: string): boolean {
  return LISTED.test(shape) || DESCRIBED.test(shape);
}

function shapeOf(token: string): string {
  if (/^[`'"]/.test(token)) return 'text';
  if (/^\d/.test(token)) return 'number';
  return /^[A-Za-z_$]/.test(token) && !KEYWORDS.has(token) ? 'name' : token;
}

/** Every run of that many lines in the files of a vendor, by its shape, with the place of the first one. */
function runsIn(vendor: string): ReadonlyMap<string, string> {
  const runs = new Map<string, string>();
  for (const file of globSync(`${vendor}/*.ts`, { cwd: CONNECTORS })) {
    const lines = readShapes(readFileSync(join(CONNECTORS, file), 'utf8'));
    for (let at = 0; at + LEAST <= lines.length; at++) {
      const run = lines.slice(at, at + LEAST).map(({ shape }) => shape);
      runs.set(run.join('\n'), `${file}:${lines[at]?.number}`);
    }
  }
  return runs;
}

const vendors = readdirSync(CONNECTORS, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'kit')
  .map(({ name }) => ({ name, runs: runsIn(name) }));

it.each(vendors)('the folder of $name repeats no code of another vendor', ({ name, runs }) => {
  const others = vendors.filter((other) => other.name > name);
  const repeated = others.flatMap((other) =>
    [...runs].filter(([run]) => other.runs.has(run)).map(([run, place]) => `${place} = ${other.runs.get(run)}`),
  );
  expect(repeated).toEqual([]);
});
