import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chanceOf, oneOf } from '../chances.ts';
import { type Mutation, mutationsOf } from './operators.ts';

export const TOP = join(import.meta.dirname, '../../..');

/** Migrations of released versions, and files that another project or the generator owns. */
const LEFT_OUT = /installation-migrations|(?:^|\/)generated/;

/** The files in which mistakes are made. */
function places(): string[] {
  const all = readdirSync(join(TOP, 'src'), { recursive: true, encoding: 'utf8' });
  return all
    .filter((name) => name.endsWith('.ts') && !LEFT_OUT.test(name))
    .map((name) => join('src', name))
    .sort();
}

/** Draws mistakes, half of them in `src/sync`: for each kind of mistake evenly from all folders, none twice. */
export function draw(seed: number, count: number): Mutation[] {
  const chance = chanceOf(seed, 'mutations');
  const all = places().flatMap((file) => mutationsOf(file, readFileSync(join(TOP, file), 'utf8')));
  const isSync = ({ file }: Mutation) => file.startsWith('src/sync/');
  const half = Math.ceil(count / 2);
  const ofSync = drawFrom(all.filter(isSync), half);
  const ofOthers = drawFrom(
    all.filter((each) => !isSync(each)),
    count - half,
  );
  return Array.from({ length: count }, (_, place) => (place % 2 === 0 ? ofSync : ofOthers).shift()).filter(
    (each) => each !== undefined,
  );

  function drawFrom(mutations: readonly Mutation[], most: number): Mutation[] {
    const kinds = [...Map.groupBy(mutations, ({ kind }) => kind).values()].map((each) => [
      ...Map.groupBy(each, folderOf).values(),
    ]);
    const drawn: Mutation[] = [];
    for (let turn = 0; drawn.length < most && kinds.some((folders) => folders.length > 0); turn++) {
      const folders = kinds[turn % kinds.length] as Mutation[][];
      if (folders.length === 0) continue;
      const folder = oneOf(chance, folders);
      const mutation = oneOf(chance, folder);
      drawn.push(mutation);
      folder.splice(folder.indexOf(mutation), 1);
      if (folder.length === 0) folders.splice(folders.indexOf(folder), 1);
    }
    return drawn;
  }
}

function folderOf({ file }: Mutation): string {
  return file
    .split('/')
    .slice(0, file.startsWith('src/sync/') ? 3 : 2)
    .join('/');
}
