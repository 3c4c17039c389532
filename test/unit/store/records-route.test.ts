import { describe, expect, it, test } from 'vitest';
import { blankEntity } from '../../../src/store/entities.ts';
import { saveItem } from '../../../src/store/items.ts';
import { readMeta, writeMeta } from '../../../src/store/meta.ts';
import { findChange } from '../../../src/store/outbox-rows.ts';
import {
  afterListRefused,
  canRecord,
  configureRecording,
  dropRecordChanges,
  noteListRefused,
  noteRecordRefused,
  noteRecordsListed,
  noteRecordTaken,
  type RecordsRoute,
  type RouteRefusal,
  readRecordsRoute,
  takeReopened,
  UNKNOWN_ROUTE,
} from '../../../src/store/server-capabilities.ts';
import { writeServerFact } from '../../../src/store/server-facts.ts';
import { PULL_REQUESTS_READ } from '../../../src/store/workspace-reads.ts';
import { differs } from '../../support/changes.ts';
import { openTestStore } from '../../support/intake.ts';
import { itemRow } from '../../support/items.ts';

const NOW = 10_000_000;
const MINUTE = 60_000;
const error = 'why';
const own = (status: number): RouteRefusal => ({ status, own: true, error });
/** By something in front of the workspace. */
const proxy = (status: number): RouteRefusal => ({ status, own: false, error });

describe('a refused list of records', () => {
  const refusedBefore = (minutes: number): RecordsRoute => ({ ...UNKNOWN_ROUTE, refusedAt: NOW - minutes * MINUTE });
  type ListCase = [what: string, route: RecordsRoute, refusal: RouteRefusal, state: RecordsRoute['state']];
  it.each<ListCase>([
    ...[400, 403, 404, 405, 410, 501].map(
      (status): ListCase => [`${status} by the workspace`, UNKNOWN_ROUTE, own(status), 'closed'],
    ),
    ...[401, 408, 425, 429, 500, 502, 503].map(
      (status): ListCase => [`${status} by the workspace`, UNKNOWN_ROUTE, own(status), 'unknown'],
    ),
    ['404 by a proxy', UNKNOWN_ROUTE, proxy(404), 'unknown'],
    ['404 by a proxy for the second time within ten minutes', refusedBefore(9), proxy(404), 'unknown'],
    ['404 by a proxy for the second time after ten minutes', refusedBefore(10), proxy(404), 'closed'],
    ['403 by a proxy after ten minutes', refusedBefore(10), proxy(403), 'closed'],
    ['503 by a proxy after ten minutes', refusedBefore(10), proxy(503), 'unknown'],
    ['no answer', refusedBefore(10), { status: undefined, own: false, error }, 'unknown'],
    ['a success that is no list', refusedBefore(10), { status: 200, own: false, error }, 'unknown'],
    ['anything where it is closed', { state: 'closed', since: 5 }, proxy(503), 'closed'],
  ])('%s', (_what, route, refusal, state) => {
    const next = afterListRefused(route, refusal, NOW);
    expect(next).toMatchObject({ state, error });
    if (route.state === 'closed') expect(next.since).toBe(route.since);
  });

  it('does not close a route that is open', async () => {
    const { query } = await openTestStore();
    await noteRecordsListed(query, NOW);
    expect(await noteListRefused(query, own(404), { now: NOW, isWorkspaceRead: true })).toBe(false);
    expect(await readRecordsRoute(query)).toEqual({ state: 'open', since: NOW });
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
    ['with a success in between they do not', [own(404), own(404), 'taken', own(404), own(404)], 'open'],
    ['by a proxy they do not', [proxy(404), proxy(404), proxy(404)], 'open'],
    ['for its content they do not', [own(422), own(400), own(403), own(409)], 'open'],
  ])('%s', async (_what, refusals, state) => {
    const { closed, state: last } = await refuse(refusals);
    expect(last).toBe(state);
    expect(closed.includes(true)).toBe(state === 'closed');
  });
});

test('records are written only once the route is open and its list was read to the end', async () => {
  const { query } = await openTestStore();
  expect(await canRecord(query)).toBe(false);
  await noteRecordsListed(query, NOW);
  expect(await canRecord(query)).toBe(false);
  await writeMeta(query, PULL_REQUESTS_READ, '1');
  expect(await canRecord(query)).toBe(true);
});

test('a route that opens after it was closed is compared anew, once', async () => {
  const { query } = await openTestStore();
  await writeMeta(query, PULL_REQUESTS_READ, '1');
  await noteListRefused(query, own(404), { now: NOW, isWorkspaceRead: true });
  await noteRecordsListed(query, NOW + 1);
  expect(await readMeta(query, PULL_REQUESTS_READ)).toBeUndefined();
  expect([await takeReopened(query), await takeReopened(query)]).toEqual([true, false]);
});

const record = (id: number) => blankEntity(`pull_request:github/7/${id}`, 'pull_request', { desired: '{}' });

test('without the route, records that wait or need approval are dropped, and nothing else', async () => {
  const { query } = await openTestStore();
  const states = ['pending', 'held', 'sending'] as const;
  for (const [id, state] of states.entries()) await differs(query, record(id), { state });
  await differs(query, blankEntity('link:a>t1', 'link', { desired: '{}' }));
  await dropRecordChanges(query);
  const left = await query.selectFrom('outbox').select('entity').orderBy('entity').execute();
  expect(left.map(({ entity }) => entity)).toEqual(['link:a>t1', 'pull_request:github/7/2']);
});

describe('at the start', () => {
  it('drops what waits for connections that record no more', async () => {
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
  ])('records %s: compared with the workspace again: %s', async (_what, before, now, isCompared) => {
    const { query } = await openTestStore();
    await configureRecording(query, { recording: [], others: before });
    await writeServerFact(query, 'records', { state: 'open', since: 0 });
    await writeMeta(query, PULL_REQUESTS_READ, '1');
    await configureRecording(query, { recording: ['a'], others: now });
    expect((await readMeta(query, PULL_REQUESTS_READ)) === undefined).toBe(isCompared);
    expect(await takeReopened(query)).toBe(isCompared);
  });
});
