import { expect, it } from 'vitest';
import { writeServerFact } from '../../../src/store/server-facts.ts';
import { serverStatusesOf } from '../../../src/store/stored-status.ts';
import { openTestStore } from '../../support/intake.ts';

const NOW = 1_000_000_000;
const HOUR = 3_600_000;

it('says nothing of a server that was never asked', async () => {
  const { query } = await openTestStore();
  const servers = await serverStatusesOf(query.whole, [query.workspace], NOW);
  expect(servers(query.workspace)).toEqual({
    records: { state: 'unknown', error: null },
    routesOff: [],
    fieldsOff: [],
  });
});

it('names the refusal of the records, the routes that are off now, and the fields that are left out now', async () => {
  const { query } = await openTestStore();
  await writeServerFact(query, 'records', { state: 'closed', since: 1, error: 'not_found: why' });
  const off = (offUntil: number) => ({ refused: { status: 405, resource: 'r', at: 1, offUntil } });
  await writeServerFact(query, 'routes', {
    listWorkItems: off(NOW + 1),
    getTask: off(NOW),
    getDocument: { answeredAt: 1 },
  });
  const fields = {
    labels: { offSince: NOW - HOUR },
    priority: { offSince: NOW - 25 * HOUR },
    source: { passed: true },
  };
  await writeServerFact(query, 'creation', { isTrying: true, fields, without: {} });
  const servers = await serverStatusesOf(query.whole, [query.workspace], NOW);
  expect(servers(query.workspace)).toEqual({
    records: { state: 'closed', error: 'not_found: why' },
    routesOff: [{ route: 'listWorkItems', status: 405, until: NOW + 1 }],
    fieldsOff: ['labels'],
  });
});
