import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chanceOf, oneOf } from '../chances.ts';
import { type Mutation, mutationsOf } from './operators.ts';
import { places, roomOf, TOP } from './places.ts';

/** Evenly from all kinds of mistakes, and for each kind evenly from all rooms in which it can be made; none twice. */
export function draw(seed: number, count: number): Mutation[] {
  const chance = chanceOf(seed, 'mutations');
  const all = places().flatMap((file) => mutationsOf(file, readFileSync(join(TOP, file), 'utf8')));
  const kinds = [...Map.groupBy(all, ({ kind }) => kind).values()].map((each) => [
    ...Map.groupBy(each, ({ file }) => roomOf(file)).values(),
  ]);
  const drawn: Mutation[] = [];
  for (let turn = 0; drawn.length < count && kinds.some((rooms) => rooms.length > 0); turn++) {
    const rooms = kinds[turn % kinds.length] as Mutation[][];
    const room = rooms.shift();
    if (!room) continue;
    const mutation = oneOf(chance, room);
    drawn.push(mutation);
    const rest = room.filter((each) => each !== mutation);
    // The room has its next turn when the others had theirs.
    if (rest.length > 0) rooms.push(rest);
  }
  return drawn;
}
