import { describe, expect, it } from 'vitest';
import { coveringArray } from '../support/fakes/plausible-server/covering-array.ts';
import { type Behaviours, valuesByDimension } from '../support/fakes/plausible-server/dimensions.ts';
import { exceptionsOf } from '../support/fakes/plausible-server/exceptions.ts';
import { type Ending, playDay, playFirstStart } from '../support/fakes/plausible-server/story.ts';

/** Servers in which each pair of values of two dimensions occurs. Their version header is configured. */
const SERVERS = (coveringArray(valuesByDimension()) as readonly Behaviours[]).map(withPromise);

/** The route for records promises that links are not doubled (W74). */
function withPromise(behaviours: Behaviours): Behaviours {
  const isBroken = behaviours['link POST'] === 'doubles' && behaviours['pull-request routes'] === 'as ours';
  return isBroken ? { ...behaviours, 'pull-request routes': '404' } : behaviours;
}

/** Fails where something stopped, or a cause or a held change is reported, that no exception names. */
function expectRight(behaviours: Behaviours, { wrong, codes }: Ending): void {
  const exceptions = exceptionsOf(behaviours).filter(({ dimension }) => dimension !== 'version header');
  const stopped = exceptions.flatMap(({ stops }) => stops);
  expect(wrong.filter(({ feature }) => !stopped.includes(feature))).toEqual([]);
  const explained = exceptions.flatMap((exception) => ['changes_held', ...exception.codes]);
  expect(codes.filter((code) => !explained.includes(code))).toEqual([]);
  if (wrong.length > 0) expect(codes).not.toEqual([]);
}

describe.each(SERVERS.map((behaviours, index) => [index + 1, behaviours] as const))(
  'server %i',
  (_index, behaviours) => {
    it('a day with a kill and lost answers ends right', async () => {
      const ending = await playDay(behaviours, { isLossy: true, isConfigured: true });
      expect(ending.seen.opened).toEqual([]);
      expectRight(behaviours, ending);
    });

    it('a first start beside people, and another one after the loss of the database, end right', async () => {
      const ending = await playFirstStart(behaviours, { isConfigured: true });
      expect(ending.seen.opened).toEqual([]);
      expectRight(behaviours, ending);
    });
  },
);
