import { describe, expect, it, test } from 'vitest';
import {
  afterRouteRefused,
  noteRouteAnswered,
  noteRouteRefused,
  type RouteState,
  retryRefusedRoutes,
  routeOffUntil,
  wasAnsweredRecently,
} from '../../../src/store/server-capabilities.ts';
import { openTestStore } from '../../support/intake.ts';

const NOW = 100_000_000;
const HOUR = 3_600_000;

describe('a refused read', () => {
  const refused = { status: 404, resource: 'a', at: 1 };
  it.each<[what: string, state: RouteState, status: number, resource: string, offUntil: number | undefined]>([
    ['is the first one', {}, 404, 'a', undefined],
    ['of the same resource', { refused }, 404, 'a', undefined],
    ['of another resource with another status', { refused }, 403, 'b', undefined],
    ['of another resource switches the route off for an hour', { refused }, 404, 'b', NOW + HOUR],
    [
      'that was in flight when the route was switched off changes nothing',
      { refused: { ...refused, offUntil: NOW + HOUR }, timesOff: 1 },
      404,
      'c',
      NOW + HOUR,
    ],
    ['once more without a success, for a day', { refused, timesOff: 1 }, 404, 'b', NOW + 24 * HOUR],
    [
      'of any resource once the hour is over, for a day',
      { refused: { ...refused, offUntil: NOW - 1 }, timesOff: 1 },
      404,
      'a',
      NOW + 24 * HOUR,
    ],
  ])('%s', (_what, state, status, resource, offUntil) => {
    expect(afterRouteRefused(state, { status, resource }, NOW).refused?.offUntil).toBe(offUntil);
  });

  it.each([401, 408, 425, 429, 500, 502, 503])('with %i never switches a route off', async (status) => {
    const { query } = await openTestStore();
    for (const resource of ['a', 'b', 'c'])
      expect(await noteRouteRefused(query, 'getTask', { status, resource }, NOW)).toBe(false);
    expect(await routeOffUntil(query, 'getTask', NOW)).toBeUndefined();
  });
});

test('a success in between, or a new start, asks the route again; other routes stay as they are', async () => {
  const { query } = await openTestStore();
  const refuse = (resource: string) => noteRouteRefused(query, 'listWorkItems', { status: 400, resource }, NOW);
  await refuse('a');
  await noteRouteAnswered(query, 'listWorkItems', NOW);
  expect(await refuse('b')).toBe(false);
  expect(await refuse('c')).toBe(true);
  expect(await routeOffUntil(query, 'listWorkItems', NOW)).toBe(NOW + HOUR);
  expect(await routeOffUntil(query, 'getTask', NOW)).toBeUndefined();
  await retryRefusedRoutes(query);
  expect(await routeOffUntil(query, 'listWorkItems', NOW)).toBeUndefined();
});

test('a success is recent for ten minutes', async () => {
  const { query } = await openTestStore();
  expect(await wasAnsweredRecently(query, 'getTask', NOW)).toBe(false);
  await noteRouteAnswered(query, 'getTask', NOW);
  const after = (minutes: number) => wasAnsweredRecently(query, 'getTask', NOW + minutes * 60_000);
  expect([await after(10), await after(11)]).toEqual([true, false]);
});
