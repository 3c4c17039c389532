import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { repeatedRuns, type Source } from '../support/repeated-runs.ts';

/** What stands in two vendors' folders belongs into `kit/`, where a rule that loses data when wrong is proved once. */

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

describe('the finder', () => {
  const body = (name: string, text: string) => `
import { ${name} } from './${name}.ts';

/** About ${name}. */
export async function ${name}Of(given: ${name}[]): Promise<string> {
  const found = new Map<string, ${name}>();
  for (const ${name} of given) {
    if (!${name}.isOpen) continue; // ${text}
    found.set(${name}.key, ${name});
  }
  if (found.size === 0) throw new Error('${text}');
  return [...found.keys()].join('${text}');
}
`;
  const left = { path: 'a.ts', text: body('issue', 'one') };

  it('sees a copy under other names, with other texts and comments', () => {
    const right = { path: 'b.ts', text: `const more = 1 + 2;\n${body('story', 'two')}` };
    expect(repeatedRuns(left, right, LEAST)).toEqual([{ left: 'a.ts:5', right: 'b.ts:6', lines: 9 }]);
  });

  it('passes over what is shorter, or differs in one step', () => {
    const right = { path: 'b.ts', text: body('story', 'two').replace('=== 0', '> 1') };
    expect(repeatedRuns(left, right, LEAST)).toEqual([]);
    expect(repeatedRuns(left, { path: 'c.ts', text: body('story', 'two') }, LEAST + 2)).toEqual([]);
  });

  it('passes over lists of names and texts, and how options are described', () => {
    const list = (name: string) =>
      ["title: 'T',", 'workItems: true,', `${name},`, "['a', 'b'],", '.optional()', `.describe('${name}'),`].join('\n');
    const [a, b] = [`${list('one')}\n`.repeat(3), `${list('two')}\n`.repeat(3)];
    expect(repeatedRuns({ path: 'a.ts', text: a }, { path: 'b.ts', text: b }, 1)).toEqual([]);
  });
});
