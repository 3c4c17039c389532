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
