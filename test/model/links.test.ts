import { expect, it } from 'vitest';
import { isDeep } from '../support/harness/depth.ts';
import { keyOf, type LinkBounds, openLinkWorld, type Server } from './link-world.ts';
import { search } from './search.ts';

/** As the reference service is. */
const OURS: Server = { isIdempotent: true, hasRecords: true, echoes: true };
/** As the specification reads literally. */
const LITERAL: Server = { isIdempotent: false, hasRecords: false, echoes: false };
/** It refuses to add a link twice, and hides who added it. */
const REFUSING: Server = { ...OURS, refusesRepetition: true, echoes: false };

const CALM = { titles: 1, kills: 0, events: 0, reads: 0, isPrompt: true };

/** The searches of each run, and those of a deep one. */
const BOUNDS: readonly LinkBounds[] = [
  { server: OURS, ...CALM },
  { server: LITERAL, ...CALM, events: 1 },
  { server: REFUSING, ...CALM, titles: 0, kills: 1, isPrompt: false },
];
const DEEP_BOUNDS: readonly LinkBounds[] = [
  { server: OURS, ...CALM, kills: 1 },
  { server: OURS, ...CALM, reads: 1 },
  { server: OURS, ...CALM, events: 2 },
  { server: OURS, ...CALM, titles: 2 },
  { server: OURS, ...CALM, isPrompt: false },
  { server: LITERAL, ...CALM, titles: 2 },
  { server: LITERAL, ...CALM, kills: 1 },
  { server: LITERAL, ...CALM, reads: 1 },
  { server: LITERAL, ...CALM, titles: 2, kills: 1 },
  { server: LITERAL, ...CALM, titles: 2, events: 1 },
  { server: LITERAL, ...CALM, isPrompt: false },
  { server: REFUSING, ...CALM, kills: 1 },
];

/** An error of the world, not of what happens in it. */
const MOST = 200_000;

const NAMES = new Map([
  [OURS, 'reference'],
  [LITERAL, 'literal'],
  [REFUSING, 'refusing'],
]);

const named = ({ server, titles, kills, events, reads, isPrompt }: LinkBounds) =>
  [
    `${NAMES.get(server)} server; ${titles} other titles`,
    `${kills} kills, ${events} events, ${reads} reads${isPrompt ? '' : ', late processing'}`,
  ].join('; ');

for (const bounds of isDeep ? [...BOUNDS, ...DEEP_BOUNDS] : BOUNDS) {
  it(`in every order of steps a pull request ends with its own link and no other (${named(bounds)})`, async () => {
    const world = await openLinkWorld(bounds);
    const { wrong, stuck, states } = await search({ ...world, start: await world.start(), keyOf, most: MOST });
    await world.close();
    expect(wrong).toBeUndefined();
    expect(stuck).toBeUndefined();
    expect(states.length).toBeGreaterThan(100);
  });
}
