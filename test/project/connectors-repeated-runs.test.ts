import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

/** A line of code as its shape: names and texts aside, since a copy is often a copy under other names. */
interface Line {
  readonly shape: string;
  /** From 1. */
  readonly number: number;
}

interface Source {
  readonly path: string;
  readonly text: string;
}

/** Lines that stand in both files, the same but for names and texts. */
interface Run {
  readonly left: string;
  readonly right: string;
  readonly lines: number;
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

const shapesRead = new WeakMap<Source, readonly Line[]>();

function shapesOf(source: Source): readonly Line[] {
  const shapes = shapesRead.get(source) ?? readShapes(source.text);
  shapesRead.set(source, shapes);
  return shapes;
}

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

/** The longest runs, of at least `least` lines, that two files share; each line counts once. */
function repeatedRuns(left: Source, right: Source, least: number): readonly Run[] {
  const [ours, theirs] = [shapesOf(left), shapesOf(right)];
  const runs: Run[] = [];
  for (let at = 0; at < ours.length; ) {
    const longest = theirs.reduce(
      (best, _, other) => {
        const length = sharedFrom(ours, at, theirs, other);
        return length > best.length ? { length, other } : best;
      },
      { length: 0, other: 0 },
    );
    if (longest.length >= least) {
      runs.push({
        left: `${left.path}:${ours[at]?.number}`,
        right: `${right.path}:${theirs[longest.other]?.number}`,
        lines: longest.length,
      });
    }
    at += Math.max(1, longest.length >= least ? longest.length : 1);
  }
  return runs;
}

function sharedFrom(ours: readonly Line[], at: number, theirs: readonly Line[], other: number): number {
  let length = 0;
  while (ours[at + length] !== undefined && ours[at + length]?.shape === theirs[other + length]?.shape) length++;
  return length;
}

/** Code that two vendors' folders share belongs into `kit/`, where a rule that loses data when wrong is proved once. */

const CONNECTORS = join(import.meta.dirname, '../../src/connectors');
/** Lines, without comments, imports and mere lists. */
const LEAST = 8;

const folders = readdirSync(CONNECTORS, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== 'kit')
  .map(({ name }) => ({ name, files: filesIn(name) }));

function filesIn(folder: string): readonly Source[] {
  const names = readdirSync(join(CONNECTORS, folder)).filter((name) => name.endsWith('.ts'));
  return names.map((name) => ({
    path: `${folder}/${name}`,
    text: readFileSync(join(CONNECTORS, folder, name), 'utf8'),
  }));
}

describe("vendors' folders", () => {
  it.each(folders)('$name repeats no other vendor', ({ name, files }) => {
    const others = folders.filter((other) => other.name > name).flatMap((other) => other.files);
    expect(files.flatMap((file) => others.flatMap((other) => repeatedRuns(file, other, LEAST)))).toEqual([]);
  });
});
