import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { jira } from '../../../../src/connectors/jira/index.ts';
import type { WorkItem } from '../../../../src/model/item.ts';

type Json = Record<string, unknown>;

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/jira/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Json;
const CLOUD = '11223344-a1b2-4b33-8444-def123456789';
const given = { site: 'Acme.atlassian.net', cloudId: CLOUD.toUpperCase(), projects: ['eng'] };
const options = jira.options.parse(given);
const created = fixture('issue_created');
const issue = created['issue'] as { fields: Json };
const rest = fixture('issues.get') as { fields: Json };

const ofHook = (payload: unknown, by = options) =>
  jira.translate({ source: 'webhook', event: 'webhook', body: Buffer.from(JSON.stringify(payload)) }, by);
const ofRead = (event: string, payload: unknown) =>
  jira.translate({ source: 'fetch', event, body: Buffer.from(JSON.stringify(payload)) }, options);
const onlyItem = (translation: ReturnType<typeof ofHook>): WorkItem => {
  if (translation.outcome !== 'items') throw new Error(translation.outcome);
  return translation.items[0] as WorkItem;
};
const withFields = (fields: Json) => onlyItem(ofRead('issues.get', { ...rest, fields: { ...rest.fields, ...fields } }));

const reference = {
  kind: 'work_item',
  key: `jira:${CLOUD}:issue:10023`,
  locator: { issueId: '10023', projectId: '10008', issueKey: 'ENG-123' },
};

describe('a whole issue', () => {
  const common = {
    kind: 'work_item',
    key: `jira:${CLOUD}:issue:10023`,
    connector: 'jira',
    host: CLOUD,
    containerId: '10008',
    containerName: 'ENG',
    identifier: 'ENG-123',
    updatedAt: Date.UTC(2026, 2, 2, 8, 0, 0, 118),
    url: 'https://acme.atlassian.net/browse/ENG-123',
    title: 'Upload fails for files over 2 GB',
    description: null,
    state: 'open',
    isDropped: false,
    closedAt: null,
    rawState: 'To Do',
    type: 'Bug',
    priority: 'High',
    labels: ['backend', 'upload'],
    assignees: ['557058:f58131cb-b67d-43c7-b30d-6b58d40bd077'],
    author: '5b10a2844c20165700ede21g',
    isBot: false,
    createdAt: '2026-03-02T08:00:00.118Z',
  };

  it('of a webhook has every field but addresses', () => {
    expect(onlyItem(ofHook(created))).toEqual(common);
  });

  it('of the API has its description as text, and the addresses that people show', () => {
    expect(onlyItem(ofRead('issues.get', rest))).toEqual({
      ...common,
      description: '### Steps\n\nSend a file of **3 GB**. See https://work.example.com/tasks/BUG-12.',
      emails: { '5b10a2844c20165700ede21g': 'ada@example.com' },
    });
  });
});

describe('of a webhook', () => {
  it('an issue with a description is fetched: it is wiki text there, and another text in the API', () => {
    expect(ofHook(fixture('issue_updated.described'))).toEqual({ outcome: 'references', references: [reference] });
  });

  it.each(['comment_created', 'comment_updated', 'comment_deleted'])('%s brings the issue', (webhookEvent) => {
    const comment = {
      id: '10501',
      author: '557058:f58131cb-b67d-43c7-b30d-6b58d40bd077',
      text: 'Same here with 2.5 GB.',
    };
    expect(ofHook({ ...fixture('comment_created'), webhookEvent })).toEqual({
      outcome: 'references',
      references: [reference],
      ...(webhookEvent !== 'comment_deleted' && { comment }),
    });
  });

  it('a deleted issue is gone at the later of both times', () => {
    const deleted = fixture('issue_deleted');
    const { updatedAt, gone, identifier } = onlyItem(ofHook(deleted));
    expect({ updatedAt, gone, identifier }).toEqual({ updatedAt: 1772445600000, gone: true, identifier: 'ENG-123' });
    const early = onlyItem(ofHook({ ...deleted, timestamp: 5 }));
    expect(early.updatedAt).toBe(Date.parse('2026-03-02T09:30:00.512Z'));
  });

  it('the project counts by key, by number, by pattern, and not where it is excluded', () => {
    const outcomes = [
      { projects: ['ENG'] },
      { projects: [10008] },
      { projects: ['E*'] },
      { projects: ['*'] },
      { projects: ['*'], exclude: ['ENG'] },
      { projects: ['OPS'] },
    ].map((scope) => ofHook(created, jira.options.parse({ ...given, ...scope })).outcome);
    expect(outcomes).toEqual(['items', 'items', 'items', 'items', 'ignored', 'ignored']);
  });

  it('any project of any site can be looked at without a configuration', () => {
    const any = jira.unrestricted?.();
    expect(any && ofHook(fixture('issue_updated.other-project'), any).outcome).toBe('items');
    expect(any && jira.host(any)).toBe('00000000-0000-0000-0000-000000000000');
    expect(jira.host(jira.unrestricted?.(CLOUD) as never)).toBe(CLOUD);
    expect(() => jira.unrestricted?.('example.com')).toThrow(expect.objectContaining({ code: 'usage' }));
  });
});

it('a dropped issue has a resolution that is named', () => {
  const fields = { ...rest.fields, status: status('Done', 'done'), resolution: { name: 'obsolete' } };
  const payload = Buffer.from(JSON.stringify({ ...rest, fields }));
  const dropped = [{}, { dropped: ['Obsolete'] }].map((more) => {
    const by = jira.options.parse({ ...given, ...more });
    return onlyItem(jira.translate({ source: 'fetch', event: 'issues.get', body: payload }, by)).isDropped;
  });
  expect(dropped).toEqual([false, true]);
});

describe('a field', () => {
  it.each<[string, Json, Partial<WorkItem>]>([
    ['to do', { status: status('Backlog', 'new') }, { state: 'open', rawState: 'Backlog' }],
    ['in progress', { status: status('In Review', 'indeterminate') }, { state: 'in_progress', rawState: 'In Review' }],
    ['done', { status: status("Won't do", 'done') }, { state: 'done', rawState: "Won't do" }],
    ['without a category', { status: status('Parked', 'undefined') }, { state: 'open', rawState: 'Parked' }],
    ['nobody', { assignee: null, reporter: null }, { assignees: [], author: null }],
    ['the creator where no reporter is shown', { reporter: undefined }, { author: '5b10a2844c20165700ede21g' }],
    ['no priority, no labels', { priority: null, labels: [] }, { priority: null, labels: [] }],
    ['an empty description', { description: { type: 'doc', version: 1, content: [] } }, { description: null }],
    ['labels twice', { labels: ['b', 'a', 'b'] }, { labels: ['a', 'b'] }],
    ['another offset', { updated: '2026-03-02T10:00:00.000-0730' }, { updatedAt: Date.UTC(2026, 2, 2, 17, 30) }],
    ['a time in UTC', { updated: '2026-03-02T10:00:00.000Z' }, { updatedAt: Date.UTC(2026, 2, 2, 10) }],
  ])('%s', (_, fields, expected) => {
    expect(withFields(fields)).toMatchObject(expected);
  });

  it.each<[string, Json, keyof WorkItem]>([
    ['a category of tomorrow', { status: status('?', 'blocked') }, 'state'],
    ['a status that is no object', { status: 'Done' }, 'rawState'],
    ['a resolution without a name', { status: status('Done', 'done'), resolution: {} }, 'isDropped'],
    ['an ending without a state', { status: undefined, resolutiondate: '2026-03-02T10:00:00.000Z' }, 'closedAt'],
    ['a description of another kind', { description: 7 }, 'description'],
    ['labels of another kind', { labels: [7] }, 'labels'],
    ['an assignee without an id', { assignee: { displayName: 'Ada' } }, 'assignees'],
    ['an address that is none', { reporter: { accountId: 'a', emailAddress: '"?"' } }, 'emails'],
  ])('%s is absent', (_, fields, field) => {
    expect(withFields(fields)).not.toHaveProperty(field);
  });

  it('id must be there', () => {
    expect(() => ofHook({ ...created, issue: { ...issue, id: '../../../1' } })).toThrow(
      expect.objectContaining({ code: 'delivery_malformed' }),
    );
  });

  const { projectId, issueKey } = reference.locator;
  it.each<[string, object, object]>([
    ['key', { ...issue, key: 'ENG' }, { isFollowed: 'unknown' }],
    ['project', { ...issue, fields: { ...issue.fields, project: null } }, { isFollowed: 'unknown' }],
    ['time', { ...issue, fields: { ...issue.fields, updated: 'yesterday' } }, { projectId, issueKey }],
  ])('%s may be missing: then the issue is fetched', (_, broken, locator) => {
    expect(ofHook({ ...created, issue: broken })).toMatchObject({
      outcome: 'references',
      references: [{ locator: { issueId: reference.locator.issueId, ...locator } }],
    });
  });
});

describe('a comment without its issue', () => {
  const { issue: _, ...alone } = fixture('comment_created');

  it('names it by its own address', () => {
    const comment = { id: '1', self: 'https://acme.atlassian.net/rest/api/2/issue/10040/comment/10019' };
    expect(ofHook({ ...alone, comment })).toMatchObject({
      outcome: 'references',
      references: [{ key: `jira:${CLOUD}:issue:10040`, locator: { issueId: '10040', isFollowed: 'unknown' } }],
    });
  });

  it.each([[undefined], [null], [{ id: '1' }], [{ id: '1', self: 'https://evil.example/issue/1/comment/../../../2' }]])(
    'is about no issue where it is %j',
    (comment) => {
      expect(ofHook({ ...alone, issue: null, comment })).toEqual({ outcome: 'ignored', reason: 'not_an_issue' });
    },
  );
});

it('what was fetched without knowing its project is judged then', () => {
  const foreign = { ...rest, fields: { ...rest.fields, project: { id: '7', key: 'OTHER' } } };
  expect(ofRead('issues.judged', rest)).toMatchObject({ outcome: 'items', items: [{ identifier: 'ENG-123' }] });
  expect(ofRead('issues.judged', foreign)).toEqual({ outcome: 'ignored', reason: 'project_not_in_scope' });
  expect(ofRead('issues.missing', {})).toEqual({ outcome: 'ignored', reason: 'not_found' });
});

it('a description without a word is none, and costs no fetch', () => {
  for (const description of ['', ' \n'])
    expect(ofHook({ ...created, issue: { ...issue, fields: { ...issue.fields, description } } })).toMatchObject({
      outcome: 'items',
      items: [{ description: null }],
    });
});

it('the change log of a move tells the former key', () => {
  const items = [
    { field: 'project', from: '10001', fromString: 'Operations', to: '10008', toString: 'Engineering' },
    { field: 'Key', from: null, fromString: 'OPS-7', to: null, toString: 'ENG-123' },
  ];
  expect(onlyItem(ofHook({ ...created, changelog: { id: '1', items } }))).toMatchObject({
    ...{ identifier: 'ENG-123', formerIdentifiers: ['OPS-7'] },
  });
});

it('an issue that was moved keeps its identity, and tells its new place', () => {
  const moved = { ...rest, key: 'OPS-9', fields: { ...rest.fields, project: { id: '10011', key: 'OPS' } } };
  expect(onlyItem(ofRead('issues.get', moved))).toMatchObject({
    key: `jira:${CLOUD}:issue:10023`,
    identifier: 'OPS-9',
    containerId: '10011',
    containerName: 'OPS',
    url: 'https://acme.atlassian.net/browse/OPS-9',
  });
});

function status(name: string, key: string) {
  return { name, statusCategory: { key } };
}
