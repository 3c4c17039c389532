import { describe, expect, it, test } from 'vitest';
import { blankEntity } from '../../../src/store/changes/entities.ts';
import { findChange } from '../../../src/store/changes/outbox-rows.ts';
import { saveItem } from '../../../src/store/items/items.ts';
import { PULL_REQUESTS_READ, readMeta, writeMeta } from '../../../src/store/meta.ts';
import {
  afterListRefused,
  afterRouteRefused,
  canRecord,
  configureLinks,
  configureRecording,
  linksAreIdempotent,
  noteRecordRefused,
  noteRecordsListed,
  noteRecordTaken,
  noteRouteAnswered,
  noteRouteRefused,
  type RecordsRoute,
  type RouteRefusal,
  type RouteState,
  readRecordsRoute,
  retryRefusedRoutes,
  routeOffUntil,
  takeReopened,
  UNKNOWN_ROUTE,
} from '../../../src/store/workspace/server-capabilities.ts';
import {
  bindServerFacts,
  readServerFact,
  SERVER_FACTS,
  writeServerFact,
} from '../../../src/store/workspace/server-facts.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { differs } from '../../support/rows/changes.ts';
import { itemRow } from '../../support/rows/items.ts';

const NOW = 100_000_000;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const error = 'why';
const own = (status: number): RouteRefusal => ({ status, own: true, error });
/** A refusal by a server in front of the workspace. */
const proxy = (status: number): RouteRefusal => ({ status, own: false, error });

describe('a refused list of records', () => {
  const refusedBefore = (minutes: number): RecordsRoute => ({ ...UNKNOWN_ROUTE, refusedAt: NOW - minutes * MINUTE });
  type ListCase = [what: string, route: RecordsRoute, refusal: RouteRefusal, state: RecordsRoute['state']];
  it.each<ListCase>([
    ...[400, 404, 501].map((status): ListCase => [`${status} by the workspace`, UNKNOWN_ROUTE, own(status), 'closed']),
    ...[401, 429, 503].map((status): ListCase => [`${status} by the workspace`, UNKNOWN_ROUTE, own(status), 'unknown']),
    ['404 by a proxy', UNKNOWN_ROUTE, proxy(404), 'unknown'],
    ['404 by a proxy for the second time after ten minutes', refusedBefore(10), proxy(404), 'closed'],
    ['403 by a proxy after ten minutes', refusedBefore(10), proxy(403), 'closed'],
    ['no answer', refusedBefore(10), { status: undefined, own: false, error }, 'unknown'],
    ['any refusal of a closed route', { state: 'closed', since: 5 }, proxy(503), 'closed'],
  ])('%s', (_what, route, refusal, state) => {
    const next = afterListRefused(route, refusal, NOW);
    expect(next).toMatchObject({ state, error });
    if (route.state === 'closed') expect(next.since).toBe(route.since);
  });
});

describe('a refused record', () => {
  const refuse = async (refusals: readonly (RouteRefusal | 'taken')[]) => {
    const { query } = await openTestStore();
    await noteRecordsListed(query, NOW);
    const closed: boolean[] = [];
    for (const refusal of refusals) {
      if (refusal === 'taken') await noteRecordTaken(query);
      else closed.push(await noteRecordRefused(query, refusal, NOW + 1));
    }
    return { closed, state: (await readRecordsRoute(query)).state };
  };

  it.each<[what: string, refusals: readonly (RouteRefusal | 'taken')[], state: string]>([
    ['404, 405 and 501 in a row close the route', [own(404), own(405), own(501)], 'closed'],
    [
      'refusals with a success in between leave the route open',
      [own(404), own(404), 'taken', own(404), own(404)],
      'open',
    ],
    ['refusals by a proxy leave the route open', [proxy(404), proxy(404), proxy(404)], 'open'],
    ['refusals of the content leave the route open', [own(422), own(400), own(403), own(409)], 'open'],
  ])('%s', async (_what, refusals, state) => {
    const { closed, state: last } = await refuse(refusals);
    expect(last).toBe(state);
    expect(closed.includes(true)).toBe(state === 'closed');
  });
});

test('writes records only after the route opened and its list was read completely', async () => {
  const { query } = await openTestStore();
  expect(await canRecord(query)).toBe(false);
  await noteRecordsListed(query, NOW);
  expect(await canRecord(query)).toBe(false);
  await writeMeta(query, PULL_REQUESTS_READ, '1');
  expect(await canRecord(query)).toBe(true);
});

const record = (id: number) => blankEntity(`pull_request:github/7/${id}`, 'pull_request', { desired: '{}' });

describe('the configuration of recording', () => {
  it('deletes the changes of connections that no longer record, and no others', async () => {
    const { query } = await openTestStore();
    for (const [id, connection] of ['gh', 'other'].entries()) {
      await saveItem(query, itemRow(`${connection}:1`, { connection }), 1);
      await differs(query, { ...record(id), item_key: `${connection}:1` });
    }
    await configureRecording(query, { recording: ['gh'], others: ['other'] });
    expect(await findChange(query, record(0).entity)).toBeDefined();
    expect(await findChange(query, record(1).entity)).toBeUndefined();
  });

  it.each<[what: string, before: readonly string[], now: readonly string[], isCompared: boolean]>([
    ['no connection more', ['b'], ['b'], false],
    ['a new connection', [], [], false],
    ['a connection that did not record before', ['a'], [], true],
  ])('with %s: compares all records again: %s', async (_what, before, now, isCompared) => {
    const { query } = await openTestStore();
    await configureRecording(query, { recording: [], others: before });
    await writeServerFact(query, 'records', { state: 'open', since: 0 });
    await writeMeta(query, PULL_REQUESTS_READ, '1');
    await configureRecording(query, { recording: ['a'], others: now });
    expect((await readMeta(query, PULL_REQUESTS_READ)) === undefined).toBe(isCompared);
    expect(await takeReopened(query)).toBe(isCompared);
  });
});

describe('a refused read', () => {
  const refused = { status: 404, resource: 'a', at: 1 };
  it.each<[what: string, state: RouteState, status: number, resource: string, offUntil: number | undefined]>([
    ['is the first', {}, 404, 'a', undefined],
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

  it.each([401, 429, 503])('with %i never switches a route off', async (status) => {
    const { query } = await openTestStore();
    for (const resource of ['a', 'b', 'c'])
      expect(await noteRouteRefused(query, 'getTask', { status, resource }, NOW)).toBe(false);
    expect(await routeOffUntil(query, 'getTask', NOW)).toBeUndefined();
  });
});

test('a success or a restart ends the refusal of a route, and does not affect other routes', async () => {
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

test('considers additions of links idempotent if configured, or if the server records pull requests', async () => {
  const { query } = await openTestStore();
  expect(await linksAreIdempotent(query)).toBe(false);
  await configureLinks(query, true);
  expect(await linksAreIdempotent(query)).toBe(true);
  await configureLinks(query, false);
  expect(await linksAreIdempotent(query)).toBe(false);
  await noteRecordsListed(query, 1);
  expect(await linksAreIdempotent(query)).toBe(true);
});

it('forgets all facts about the server if the base address changes', async () => {
  const { query } = await openTestStore();
  const learn = async () => {
    for (const fact of SERVER_FACTS) await writeServerFact(query, fact, { fact });
  };
  const known = () => Promise.all(SERVER_FACTS.map((fact) => readServerFact(query, fact)));
  await bindServerFacts(query, 'https://one.example');
  await learn();
  await bindServerFacts(query, 'https://one.example');
  expect(await known()).toEqual(SERVER_FACTS.map((fact) => ({ fact })));
  await bindServerFacts(query, 'https://two.example');
  expect(await known()).toEqual(SERVER_FACTS.map(() => undefined));
});
