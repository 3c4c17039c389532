import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { parseSync } from 'oxc-parser';
import { TOP } from './draw.ts';

/** Returns the test files that import a file of `src`, directly or not, those that load the fewest files first. */
export function createTestsThatLoad(): (file: string) => readonly string[] {
  const loads = new Map<string, ReadonlySet<string>>();
  const all = readdirSync(join(TOP, 'test'), { recursive: true, encoding: 'utf8' });
  for (const name of all.filter((each) => each.endsWith('.test.ts'))) {
    const loaded = new Set<string>();
    const left = [join('test', name)];
    for (let file = left.pop(); file !== undefined; file = left.pop()) {
      if (loaded.has(file)) continue;
      loaded.add(file);
      left.push(...importsOf(file));
    }
    loads.set(join('test', name), loaded);
  }
  return (file) => {
    const found = [...loads].filter(([, loaded]) => loaded.has(file));
    return found.toSorted(([, one], [, other]) => one.size - other.size).map(([test]) => test);
  };
}

const known = new Map<string, readonly string[]>();

/** Returns the files of the project that a file imports, also those that it loads later. */
function importsOf(file: string): readonly string[] {
  const before = known.get(file);
  if (before) return before;
  const source = readFileSync(join(TOP, file), 'utf8');
  const { module } = parseSync(file, source);
  const named = [
    ...module.staticImports.filter(({ entries }) => entries.length === 0 || entries.some(({ isType }) => !isType)),
    ...module.staticExports.flatMap(({ entries }) => entries),
  ].flatMap(({ moduleRequest }) => moduleRequest?.value ?? []);
  const later = module.dynamicImports.flatMap(({ moduleRequest: { start, end } }) =>
    source.slice(start, end).replaceAll(/['"`]/g, ''),
  );
  const found = [...named, ...later]
    .filter((each) => each.startsWith('.') && each.endsWith('.ts'))
    .map((each) => relative(TOP, join(TOP, dirname(file), each)));
  known.set(file, found);
  return found;
}
