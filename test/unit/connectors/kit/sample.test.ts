import { expect, it } from 'vitest';
import { NUMBERS, samplesOf, UUIDS } from '../../../../src/connectors/kit/sample.ts';

const TEAM = '9cfb482a-81e3-4154-b5b9-2c805e70a02d';
const bindings = [{ entry: 'acme/api', id: '7', called: 'acme/api-2' }];

type Place = Parameters<typeof samplesOf>[0]['place'];

/** The place of a sample event, for a connection with these entries in its scope. */
function placeOf(include: readonly string[], place: Place): unknown {
  const { events } = samplesOf({
    sign: () => ({}),
    scopeOf: () => ({ include, exclude: ['acme/*-old'], archived: false, forks: false }),
    place,
    events: { opened: ['an item is opened', 'opened'] },
    payload: (_, input) => input.place,
  });
  return events.opened.payload({}, { at: 0, id: 'd-1', bindings });
}

it('places a sample by an entry: an id, a bound name, or a pattern', () => {
  expect(placeOf(['12'], { ids: NUMBERS })).toEqual({ id: '12', name: 'worksync-trial' });
  expect(placeOf([TEAM], { ids: UUIDS, name: 'TRIAL' })).toEqual({ id: TEAM, name: 'TRIAL' });
  expect(placeOf(['acme/api'], { ids: NUMBERS })).toEqual({ id: '7', name: 'acme/api-2' });
  const invented = placeOf(['acme/*-old', 'acme/*'], { ids: NUMBERS, name: 'worksync/worksync-trial' });
  expect(invented).toEqual({ id: '999000001', name: 'acme/worksync-trial' });
});

it('refuses to place a sample while no id of the names is known', () => {
  expect(() => placeOf(['acme/web'], { ids: NUMBERS })).toThrow(/does not know yet which id/);
  expect(() => placeOf(['12'], { ids: { made: 'one' } })).toThrow(/does not know yet which id/);
});
