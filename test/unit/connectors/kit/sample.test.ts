import { expect, it } from 'vitest';
import { NUMBERS, placeIn, UUIDS } from '../../../../src/connectors/kit/sample.ts';

const TEAM = '9cfb482a-81e3-4154-b5b9-2c805e70a02d';
const bindings = [{ entry: 'acme/api', id: '7', called: 'acme/api-2' }];

const scope = (...include: string[]) => ({ include, exclude: ['acme/*-old'], archived: false, forks: false });

it('is in the place of an entry: an id, a bound name, or what a pattern takes in', () => {
  expect(placeIn(scope('12'), { bindings }, { ids: NUMBERS })).toEqual({ id: '12', name: 'worksync-trial' });
  expect(placeIn(scope(TEAM), { bindings }, { ids: UUIDS, name: 'TRIAL' })).toEqual({ id: TEAM, name: 'TRIAL' });
  expect(placeIn(scope('acme/api'), { bindings }, { ids: NUMBERS })).toEqual({ id: '7', name: 'acme/api-2' });
  const made = placeIn(scope('acme/*-old', 'acme/*'), { bindings }, { ids: NUMBERS, name: 'worksync/worksync-trial' });
  expect(made).toEqual({ id: '999000001', name: 'acme/worksync-trial' });
});

it('is nowhere while no id of the names is known', () => {
  expect(() => placeIn(scope('acme/web'), { bindings }, { ids: NUMBERS })).toThrow(/does not know yet which id/);
  expect(() => placeIn(scope('12'), { bindings }, { ids: { made: 'one' } })).toThrow(/does not know yet which id/);
});
