import { expect, it } from 'vitest';
import { type Behaviours, eachOnce, singles } from '../support/fakes/plausible-server/dimensions.ts';
import { exceptionsOf } from '../support/fakes/plausible-server/exceptions.ts';
import { playDay } from '../support/fakes/plausible-server/story.ts';
import { isDeep } from '../support/harness/depth.ts';

/** A server that doubles links cannot have the route for records, which promises that it does not (W74). */
const SERVERS: readonly Behaviours[] = (isDeep ? singles() : eachOnce()).map((behaviours) =>
  behaviours['link POST'] === 'doubles' ? { ...behaviours, 'pull-request routes': '404' } : behaviours,
);

it.each(SERVERS.map((behaviours) => [Object.values(behaviours).join(', '), behaviours] as const))(
  'works with a server that differs in: %s',
  async (_name, behaviours) => {
    const { wrong, codes } = await playDay(behaviours, { isLossy: true });
    const exceptions = exceptionsOf(behaviours);
    const stopped = exceptions.flatMap(({ stops }) => stops);
    expect(wrong.filter(({ feature }) => !stopped.includes(feature))).toEqual([]);
    const expected = exceptions.flatMap((exception) => exception.codes);
    if (exceptions.length === 0) expect(codes).toEqual([]);
    else expect(codes.filter((code) => expected.includes(code))).not.toEqual([]);
  },
);
