import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { azureBoards } from '../../../../src/connectors/azure-boards/index.ts';
import type { WorkItem } from '../../../../src/model/item.ts';

type Json = Record<string, unknown>;

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/azure-boards/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Json;
const ORGANIZATION = '9f2c1a7b-04d5-4c6f-8a90-b1e2d3c4f5a6';
const PROJECT = '6ce954b1-ce1f-45d1-b94d-e6bf2464ba2c';
const ADA = 'd291b0c4-a05c-4ea6-8df1-4b41d5f39eff';
const BEN = '74a0ab46-8b2b-6e1d-a3b2-5c3f9d0e1f2a';
const given = { organization: 'acme', organizationId: ORGANIZATION, projects: ['website'] };
const options = azureBoards.options.parse(given);
const item = fixture('workitems.get') as { fields: Json };
const updated = fixture('workitem.updated') as { resource: Json };

const ofHook = (payload: unknown, by = options) =>
  azureBoards.translate({ source: 'webhook', event: 'webhook', body: Buffer.from(JSON.stringify(payload)) }, by);
const ofRead = (event: string, payload: unknown) =>
  azureBoards.translate({ source: 'fetch', event, body: Buffer.from(JSON.stringify(payload)) }, options);
const onlyItem = (translation: ReturnType<typeof ofHook>): WorkItem => {
  if (translation.outcome !== 'items') throw new Error(translation.outcome);
  return translation.items[0] as WorkItem;
};
const itemWith = (fields: Json, more: Json = {}) =>
  onlyItem(ofRead('workitems.get', { ...item, fields: { ...item.fields, ...fields }, ...more }));

const reference = {
  kind: 'work_item',
  key: `azure-boards:${ORGANIZATION}:issue:299`,
  locator: { id: '299', projectId: PROJECT },
};

it('a whole work item', () => {
  const whole = onlyItem(ofRead('workitems.get', item));
  expect(whole).toEqual({
    kind: 'work_item',
    key: `azure-boards:${ORGANIZATION}:issue:299`,
    connector: 'azure-boards',
    host: ORGANIZATION,
    containerId: PROJECT,
    containerName: 'Website',
    identifier: '299',
    updatedAt: Date.UTC(2026, 2, 2, 9, 30, 0, 513),
    version: 2,
    url: 'https://dev.azure.com/acme/Website/_workitems/edit/299',
    title: 'Upload fails for files over 2 GB',
    description: 'Send a file of **3 GB**.\nSee [BUG-12](https://work.example.com/tasks/BUG-12).',
    state: 'in_progress',
    isDropped: false,
    closedAt: null,
    rawState: 'Active',
    type: 'Bug',
    priority: '2',
    labels: ['backend', 'upload'],
    assignees: [BEN],
    author: ADA,
    emails: { [ADA]: 'ada@example.com', [BEN]: 'ben@example.com' },
    createdAt: '2026-03-02T08:00:00.117Z',
    isPublic: false,
  });
  expect(azureBoards.reference(whole)).toEqual(reference);
});

describe('of a webhook', () => {
  it.each(['created', 'updated', 'minimal', 'deleted', 'commented'])('workitem.%s says which to look at', (name) => {
    expect(ofHook(fixture(`workitem.${name}`))).toMatchObject({ outcome: 'references', references: [reference] });
  });

  it('a restored one too', () => {
    const restored = { ...fixture('workitem.created'), eventType: 'workitem.restored' };
    expect(ofHook(restored)).toEqual({ outcome: 'references', references: [reference] });
  });

  it('the id of an update is not taken for the one of its work item', () => {
    const { workItemId: _, revision, ...resource } = updated.resource;
    expect(() => ofHook({ ...updated, resource })).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
    // Its revision is the work item, under its own number.
    expect(ofHook({ ...updated, resource: { ...resource, revision } })).toMatchObject({ references: [reference] });
  });

  it('without a project is fetched, and judged then', () => {
    const locator = { id: '299', isFollowed: 'unknown' };
    for (const resourceContainers of [undefined, null, {}, { project: null }])
      expect(ofHook({ ...updated, resourceContainers })).toEqual({
        outcome: 'references',
        references: [{ ...reference, locator }],
      });
    const elsewhere = { ...item, project: { id: PROJECT, name: 'Operations' } };
    expect(ofRead('workitems.judged', item)).toMatchObject({ outcome: 'items' });
    expect(ofRead('workitems.judged', elsewhere)).toEqual({ outcome: 'ignored', reason: 'project_not_in_scope' });
  });

  it('the project counts by name, by id, by pattern, and not where it is excluded', () => {
    const outcomes = [
      { projects: ['Website'] },
      { projects: [PROJECT.toUpperCase()] },
      { projects: ['Web*'] },
      { projects: ['*'], exclude: ['Website'] },
      { projects: ['Operations'] },
    ].map((scope) => ofHook(updated, azureBoards.options.parse({ ...given, ...scope })).outcome);
    expect(outcomes).toEqual(['references', 'references', 'references', 'ignored', 'ignored']);
    const elsewhere = azureBoards.options.parse({ ...given, projects: ['Operations'] });
    // Its name is not told here, so it may be the one that is meant: what is fetched is judged.
    const locator = { ...reference.locator, isFollowed: 'unknown' };
    const unjudged = { outcome: 'references', references: [{ ...reference, locator }] };
    expect([ofHook(fixture('workitem.minimal'), elsewhere), ofHook(fixture('workitem.minimal'))]).toEqual([
      unjudged,
      unjudged,
    ]);
  });

  it('any project of any organisation can be looked at without a configuration', () => {
    const any = azureBoards.unrestricted?.();
    expect(any && ofHook(fixture('workitem.other-project'), any).outcome).toBe('references');
    expect(azureBoards.host(azureBoards.unrestricted?.(ORGANIZATION) as never)).toBe(ORGANIZATION);
    expect(() => azureBoards.unrestricted?.('example.com')).toThrow(expect.objectContaining({ code: 'usage' }));
  });
});

describe('a field', () => {
  it.each<[string, string | undefined]>([
    ['Proposed', 'open'],
    ['InProgress', 'in_progress'],
    ['Resolved', 'in_progress'],
    ['Completed', 'done'],
    ['Removed', 'done'],
    ['OfTomorrow', undefined],
  ])('a state of the category %s is %s', (category, state) => {
    const found = itemWith({ 'System.State': 'Its name' }, { category });
    expect([found.state, found.rawState]).toEqual([state, 'Its name']);
  });

  it('what is empty is left out by Azure, and null here', () => {
    const empty = {
      'System.Description': undefined,
      'System.AssignedTo': undefined,
      'System.Tags': undefined,
      'Microsoft.VSTS.Common.Priority': undefined,
    };
    expect(itemWith(empty)).toMatchObject({ description: null, assignees: [], labels: [], priority: null });
    const nulls = Object.fromEntries(Object.keys(empty).map((name) => [name, null]));
    expect(itemWith(nulls)).toEqual(itemWith(empty));
  });

  it.each<[string, Json, Partial<WorkItem>]>([
    ['a description of nothing', { 'System.Description': '<div><br></div>' }, { description: null }],
    ['tags', { 'System.Tags': ' b;a ;; c d ' }, { labels: ['a', 'b', 'c d'] }],
    ['a name that is no address', { 'System.CreatedBy': { id: 'x', uniqueName: 'ACME\\ada' } }, { author: 'x' }],
    ['one that was deleted', { 'System.IsDeleted': true }, { gone: true }],
  ])('%s', (_, fields, expected) => {
    expect(itemWith(fields)).toMatchObject(expected);
  });

  it('a bug has its repro steps, and what it must fulfil', () => {
    const bug = {
      'System.Description': undefined,
      'Microsoft.VSTS.TCM.ReproSteps': '<div>Send 3 GB, see BUG-12</div>',
      'Microsoft.VSTS.Common.AcceptanceCriteria': 'It *arrives*.',
    };
    const multilineFieldsFormat = { 'Microsoft.VSTS.Common.AcceptanceCriteria': 'markdown' };
    const { description } = itemWith(bug, { multilineFieldsFormat });
    expect(description).toBe('Send 3 GB, see BUG-12\n\n## Acceptance criteria\n\nIt *arrives*.');
    const described = itemWith({ ...bug, 'System.Description': 'Uploads fail' }, { multilineFieldsFormat });
    expect(described.description).toBe('Uploads fail\n\n## Acceptance criteria\n\nIt *arrives*.');
  });

  it('a description that is Markdown already stays as it is', () => {
    const text = '# Steps\n\n- Send <b>3 GB</b>\n';
    const multilineFieldsFormat = { 'System.Description': 'markdown' };
    expect(itemWith({ 'System.Description': text }, { multilineFieldsFormat }).description).toBe(text.trim());
  });

  it('a project with a space has its address', () => {
    const url = 'https://dev.azure.com/acme/Our%20Web/_workitems/edit/299';
    expect(itemWith({}, { project: { id: PROJECT, name: 'Our Web' } }).url).toBe(url);
  });

  it.each<[string, Json, keyof WorkItem]>([
    ['an assignee that is a text', { 'System.AssignedTo': 'Ben <ben@example.com>' }, 'assignees'],
    ['a creator that is a text', { 'System.CreatedBy': 'Ada <ada@example.com>' }, 'author'],
    ['a description of another kind', { 'System.Description': 7 }, 'description'],
    ['tags of another kind', { 'System.Tags': ['a'] }, 'labels'],
    ['a priority of another kind', { 'Microsoft.VSTS.Common.Priority': 'high' }, 'priority'],
  ])('%s is absent', (_, fields, field) => {
    expect(itemWith(fields)).not.toHaveProperty(field);
  });

  it.each<[string, Json]>([
    ['number', { id: 0 }],
    ['revision', { rev: null }],
    ['project', { project: { id: '../../../1', name: 'x' } }],
    ['time', { fields: { ...item.fields, 'System.ChangedDate': 'yesterday' } }],
  ])('%s must be there', (_, more) => {
    const broken = { ...item, ...more };
    expect(() => ofRead('workitems.get', broken)).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
  });
});

it('names that no address can hold lead to an address nevertheless', () => {
  const odd = { ...item, project: { id: PROJECT, name: 'Web\ud800site' } };
  expect(onlyItem(ofRead('workitems.get', odd)).url).toBe(
    'https://dev.azure.com/acme/Web%EF%BF%BDsite/_workitems/edit/299',
  );
});
