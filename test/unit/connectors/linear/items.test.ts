import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { linear } from '../../../../src/connectors/linear/index.ts';
import type { WorkItem } from '../../../../src/model/item.ts';

type Json = Record<string, unknown>;

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/linear/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Json;
const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const TEAM = '72b2a2dc-6f4f-4423-9d34-24b5bd10634a';
const ISSUE = '2174add1-f7c8-44e3-bbf3-2d60b5ea8bc9';
const ADA = 'b5ea5f1f-8adc-4f52-b4bd-ab4e84cf51ba';
const BEN = 'aacdca22-6266-4c0a-ab3c-8fa70a26765c';
const given = { organizationId: ORGANIZATION, teams: ['eng'] };
const options = linear.options.parse(given);
const update = fixture('issue.update') as { data: Json };
const node = fixture('issues.get');

const ofHook = (payload: unknown, by = options, event = 'Issue') =>
  linear.translate({ source: 'webhook', event, body: Buffer.from(JSON.stringify(payload)) }, by);
const ofRead = (event: string, payload: unknown) =>
  linear.translate({ source: 'fetch', event, body: Buffer.from(JSON.stringify(payload)) }, options);
const onlyItem = (translation: ReturnType<typeof ofHook>): WorkItem => {
  if (translation.outcome !== 'items') throw new Error(translation.outcome);
  return translation.items[0] as WorkItem;
};
const hookWith = (fields: Json) => onlyItem(ofHook({ ...update, data: { ...update.data, ...fields } }));
const readWith = (fields: Json) => onlyItem(ofRead('issues.get', { ...node, ...fields }));

describe('a whole issue', () => {
  const common = {
    kind: 'work_item',
    key: `linear:${ORGANIZATION}:issue:${ISSUE}`,
    connector: 'linear',
    host: ORGANIZATION,
    containerId: TEAM,
    containerName: 'ENG',
    identifier: 'ENG-123',
    updatedAt: Date.UTC(2026, 2, 2, 9, 30, 0, 512),
    url: 'https://linear.app/acme/issue/ENG-123',
    title: 'Upload fails for files over 2 GB',
    description: 'Send a file of **3 GB**. See BUG-12.',
    state: 'in_progress',
    isDropped: false,
    closedAt: null,
    rawState: 'In Review',
    priority: 'High',
    labels: ['backend', 'upload'],
    assignees: [BEN],
    author: ADA,
    createdAt: '2026-03-02T08:00:00.118Z',
  };

  it('of a webhook has every field but addresses', () => {
    expect(onlyItem(ofHook(update))).toEqual(common);
  });

  it('of the API has the addresses too', () => {
    const emails = { [ADA]: 'ada@example.com', [BEN]: 'ben@example.com' };
    expect(onlyItem(ofRead('issues.get', node))).toEqual({ ...common, emails, isBot: false });
  });

  it('of nobody says so, in either of them', () => {
    const nobody = { assignees: [], author: null, labels: [], description: null, priority: null, state: 'open' };
    expect(onlyItem(ofHook(fixture('issue.create.nobody')))).toMatchObject(nobody);
    const empty = { nodes: [], pageInfo: { hasNextPage: false } };
    const state = { name: 'Triage', type: 'triage' };
    const of = { assignee: null, creator: null, labels: empty, description: null, priority: 0, state };
    expect(readWith(of)).toMatchObject(nobody);
  });
});

describe('of a webhook', () => {
  it('a comment brings its issue', () => {
    const translation = ofHook(fixture('comment.create'), options, 'Comment');
    const locator = { issueId: ISSUE, teamId: TEAM, identifier: 'ENG-123' };
    const reference = { kind: 'work_item', key: `linear:${ORGANIZATION}:issue:${ISSUE}`, locator };
    expect(translation).toMatchObject({ outcome: 'references', references: [reference] });
    expect(linear.reference(onlyItem(ofHook(update)))).toEqual(reference);
  });

  it('a removed issue is gone, at the time of the event', () => {
    const removed = fixture('issue.remove');
    const { updatedAt, gone } = onlyItem(ofHook(removed));
    expect({ updatedAt, gone }).toEqual({ updatedAt: Date.parse('2026-03-02T09:40:00.050Z'), gone: true });
    const early = onlyItem(ofHook({ ...removed, createdAt: '2026-01-01T00:00:00.000Z' }));
    expect(early.updatedAt).toBe(Date.parse('2026-03-02T09:30:00.512Z'));
  });

  it('an issue in the trash is gone, and comes back out of it', () => {
    expect(hookWith({ trashed: true }).gone).toBe(true);
    expect(hookWith({ trashed: null }).gone).toBeUndefined();
    expect(readWith({ trashed: true }).gone).toBe(true);
    expect(readWith({ trashed: false }).gone).toBeUndefined();
  });

  it.each<[string, Json, Json]>([
    ['an assignee without the id', { assigneeId: undefined }, { assignees: [BEN] }],
    ['an id without the assignee', { assignee: undefined }, { assignees: [BEN] }],
    ['an assignee of null', { assigneeId: undefined, assignee: null }, { assignees: [] }],
    ['a creator without the id', { creatorId: undefined }, { author: ADA }],
  ])('%s tells enough', (_, fields, expected) => {
    expect(hookWith(fields)).toMatchObject(expected);
  });

  it('people that are not carried are absent', () => {
    const none = { assigneeId: undefined, assignee: undefined, creatorId: undefined, creator: undefined };
    const item = hookWith(none);
    expect(item).not.toHaveProperty('assignees');
    expect(item).not.toHaveProperty('author');
  });

  it.each<[string, Json]>([
    ['state', { state: { name: 'Frozen', type: 'frozen' } }],
    ['title', { title: undefined }],
    ['description', { description: undefined }],
  ])('an issue without its %s is fetched', (_, fields) => {
    expect(ofHook({ ...update, data: { ...update.data, ...fields } }).outcome).toBe('references');
  });

  it('the team counts by key, by id, by pattern, and not where it is excluded', () => {
    const outcomes = [
      { teams: ['ENG'] },
      { teams: [TEAM.toUpperCase()] },
      { teams: ['E*'] },
      { teams: ['*'], exclude: [TEAM] },
      { teams: ['OPS'] },
    ].map((scope) => ofHook(update, linear.options.parse({ ...given, ...scope })).outcome);
    expect(outcomes).toEqual(['items', 'items', 'items', 'ignored', 'ignored']);
  });

  it('any team of any organisation can be looked at without a configuration', () => {
    const any = linear.unrestricted?.();
    for (const name of ['issue.other-team', 'issue.other-organisation'])
      expect(any && ofHook(fixture(name), any).outcome).toBe('items');
    expect(linear.host(linear.unrestricted?.(ORGANIZATION) as never)).toBe(ORGANIZATION);
    expect(() => linear.unrestricted?.('example.com')).toThrow(expect.objectContaining({ code: 'usage' }));
  });
});

describe('a field', () => {
  it.each<[string, string]>([
    ['triage', 'open'],
    ['backlog', 'open'],
    ['unstarted', 'open'],
    ['started', 'in_progress'],
    ['completed', 'done'],
    ['canceled', 'done'],
    ['duplicate', 'done'],
  ])('%s is %s', (type, state) => {
    expect(readWith({ state: { name: 'Its name', type } })).toMatchObject({ state, rawState: 'Its name' });
  });

  it.each<[number, string | null]>([
    [0, null],
    [1, 'Urgent'],
    [2, 'High'],
    [3, 'Medium'],
    [4, 'Low'],
    [5, null],
  ])('priority %i is %s', (priority, expected) => {
    expect(readWith({ priority }).priority).toBe(expected);
  });

  it.each<[string, Json, keyof WorkItem]>([
    ['more labels than were read', { labels: { nodes: [{ name: 'a' }], pageInfo: { hasNextPage: true } } }, 'labels'],
    ['a type of tomorrow', { state: { name: 'Frozen', type: 'frozen' } }, 'state'],
    ['a title of another kind', { title: 7 }, 'title'],
    ['an address that is none', { assignee: { id: 'a', email: 'hidden' }, creator: null }, 'emails'],
    ['a URL of another kind', { url: 'javascript:alert(1)' }, 'url'],
  ])('%s is absent', (_, fields, field) => {
    expect(readWith(fields)).not.toHaveProperty(field);
  });

  it.each<[string, string]>([
    ['https://linear.app/acme/issue/ENG-123/a-title', 'https://linear.app/acme/issue/ENG-123'],
    ['https://linear.app/acme/issue/ENG-123', 'https://linear.app/acme/issue/ENG-123'],
    ['https://linear.example.com/acme/issue/ENG-123/a-title', 'https://linear.example.com/acme/issue/ENG-123/a-title'],
  ])('%s leads to %s', (url, expected) => {
    expect(readWith({ url }).url).toBe(expected);
  });

  it('an issue that was moved tells its former identifiers', () => {
    const previousIdentifiers = ['OPS-7', '4U-2'];
    expect(readWith({ previousIdentifiers })).toMatchObject({ formerIdentifiers: ['4U-2', 'OPS-7'] });
    expect(hookWith({ previousIdentifiers })).toMatchObject({ formerIdentifiers: ['4U-2', 'OPS-7'] });
    expect(readWith({ previousIdentifiers: [] })).not.toHaveProperty('formerIdentifiers');
  });

  it('a key may begin with a digit', () => {
    const fields = {
      identifier: '4U-41',
      team: { id: TEAM, key: '4U' },
      url: 'https://linear.app/acme/issue/4U-41/door',
    };
    const expected = { identifier: '4U-41', containerName: '4U', url: 'https://linear.app/acme/issue/4U-41' };
    expect(readWith(fields)).toMatchObject(expected);
    const teams = linear.options.parse({ ...given, teams: ['4u', '4U*'] });
    expect(teams.teams).toEqual(['4U', '4U*']);
    expect(onlyItem(ofHook({ ...update, data: { ...update.data, ...fields } }, teams))).toMatchObject(expected);
  });

  it.each<[string, Json]>([
    ['id', { id: '../../../1' }],
    ['identifier', { identifier: 'ENG' }],
    ['team', { team: null }],
    ['time', { updatedAt: 'yesterday' }],
  ])('%s must be there', (_, fields) => {
    expect(() => readWith(fields)).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
  });
});

describe('a webhook that says little', () => {
  const key = `linear:${ORGANIZATION}:issue:${ISSUE}`;
  const unjudged = { kind: 'work_item', key, locator: { issueId: ISSUE, isFollowed: 'unknown' } };
  const known = { kind: 'work_item', key, locator: { issueId: ISSUE, teamId: TEAM, identifier: 'ENG-123' } };

  it.each<[string, Json, object]>([
    ['of no team', { team: null }, unjudged],
    ['without an identifier', { identifier: undefined }, unjudged],
    ['without a time', { updatedAt: undefined }, known],
  ])('an issue %s is fetched', (_, fields, reference) => {
    const payload = { ...update, data: { ...update.data, ...fields } };
    expect(ofHook(payload)).toEqual({ outcome: 'references', references: [reference] });
  });

  it.each<[string, Json]>([
    ['without its identifier', { issue: { id: ISSUE, team: { id: TEAM, key: 'ENG' } } }],
    ['without its team', { issue: { id: ISSUE, identifier: 'ENG-123' } }],
    ['but its id, as of before 2021', { issueId: ISSUE }],
  ])('a comment that names an issue %s asks for it', (_, data) => {
    const payload = { action: 'create', type: 'Comment', data: { id: ADA, body: 'Yes.', ...data } };
    expect(ofHook(payload, options, 'Comment')).toEqual({ outcome: 'references', references: [unjudged] });
  });

  it('a comment on no issue asks for nothing', () => {
    const payload = { action: 'create', type: 'Comment', data: { id: ADA, issue: null, issueId: null } };
    expect(ofHook(payload, options, 'Comment')).toEqual({ outcome: 'ignored', reason: 'not_an_issue' });
  });

  it('of before webhookId and organizationId is recognised by its shape, and taken', () => {
    const { webhookId: _, organizationId: __, webhookTimestamp: ___, ...old } = update as Json;
    expect(linear.eventOf?.(old)).toBe('Issue');
    expect(ofHook(old).outcome).toBe('items');
  });

  it('is judged when it was fetched', () => {
    const foreign = { ...node, team: { id: ADA, key: 'OPS' } };
    expect(ofRead('issues.judged', node)).toMatchObject({ outcome: 'items', items: [{ key }] });
    expect(ofRead('issues.judged', foreign)).toEqual({ outcome: 'ignored', reason: 'team_not_in_scope' });
    expect(ofRead('issues.missing', {})).toEqual({ outcome: 'ignored', reason: 'not_found' });
  });
});
