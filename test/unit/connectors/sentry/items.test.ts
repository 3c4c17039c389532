import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { sentry } from '../../../../src/connectors/sentry/index.ts';
import type { WorkItem } from '../../../../src/model/item.ts';
import { mergeNewest } from '../../../../src/sync/reconcile/newest-wins.ts';

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/sentry/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Record<string, unknown>;
const given = { organization: 'acme', projects: ['front-*'] };
const options = sentry.options.parse(given);
const of = (source: 'webhook' | 'poll' | 'fetch', event: string, payload: unknown, by = options) =>
  sentry.translate({ source, event, body: Buffer.from(JSON.stringify(payload)) }, by);
const items = (translation: ReturnType<typeof of>): readonly WorkItem[] => {
  if (translation.outcome !== 'items') throw new Error(JSON.stringify(translation));
  return translation.items as WorkItem[];
};
const hook = (name: string) => items(of('webhook', 'issue', fixture(name)))[0] as WorkItem;
const itemWith = (fields: object) =>
  items(of('fetch', 'issues.get', { ...fixture('issues.get'), ...fields }))[0] as WorkItem;

const WHOLE: WorkItem = {
  kind: 'work_item',
  key: 'sentry:sentry.io:issue:1170820242',
  connector: 'sentry',
  host: 'sentry.io',
  containerId: '41',
  containerName: 'front-end',
  identifier: 'FRONT-END-9',
  updatedAt: Date.UTC(2026, 2, 5, 9, 30, 0, 513),
  url: 'https://acme.sentry.io/issues/1170820242/',
  title: 'ReferenceError: upload is not defined',
  description: 'upload(runner)',
  state: 'open',
  isDropped: false,
  rawState: 'unresolved (escalating)',
  type: 'error',
  priority: 'high',
  labels: ['error'],
  assignees: ['7'],
  emails: { '7': 'ada@example.com' },
  createdAt: '2026-03-02T08:12:32.391000Z',
};

it('a whole issue, the same from the API and from a webhook', () => {
  expect(itemWith({})).toEqual(WHOLE);
  expect(hook('issue.resolved')).toEqual({ ...WHOLE, state: 'done', rawState: 'resolved' });
});

describe('states', () => {
  it.each([
    ['unresolved', 'regressed', 'open', 'unresolved (regressed)'],
    ['unresolved', null, 'open', 'unresolved'],
    ['resolved', null, 'done', 'resolved'],
    ['ignored', 'archived_until_escalating', 'done', 'ignored (archived_until_escalating)'],
    ['of_tomorrow', null, undefined, 'of_tomorrow'],
    [undefined, 'ongoing', undefined, undefined],
  ])('%s, %s', (status, substatus, state, rawState) => {
    const item = itemWith({ status, substatus });
    expect([item.state, item.rawState]).toEqual([state, rawState]);
  });
});

it('teams and people are counted apart, and nobody is nobody', () => {
  expect(hook('issue.assigned.team')).toMatchObject({ assignees: ['team:3'] });
  expect(hook('issue.created')).toMatchObject({ assignees: [] });
  expect(itemWith({ assignedTo: { id: 7, name: 'Ada' } })).toMatchObject({ assignees: ['7'] });
  expect(itemWith({ assignedTo: 'ada' })).not.toHaveProperty('assignees');
});

it('an address is taken without what the API adds to it', () => {
  expect(items(of('poll', 'issues.list', fixture('issues.list')))[1]).toMatchObject({
    url: 'https://acme.sentry.io/issues/1170820243/',
    identifier: 'FRONT-END-1A',
    description: null,
  });
  expect(itemWith({ permalink: 'javascript:alert(1)' })).not.toHaveProperty('url');
});

it('two contents of one last event are doubtful, and what is fetched counts', () => {
  const open = mergeNewest(undefined, itemWith({}), 'poll');
  if (open.outcome !== 'applied') throw new Error(open.outcome);
  const resolved = mergeNewest(open.stored, hook('issue.resolved'), 'webhook');
  expect(resolved).toMatchObject({ outcome: 'applied', needsFetch: true, stored: { item: { state: 'done' } } });
  if (resolved.outcome !== 'applied') throw new Error(resolved.outcome);
  expect(mergeNewest(resolved.stored, itemWith({}), 'fetch')).toMatchObject({
    needsFetch: false,
    stored: { item: { state: 'open' } },
  });
});
