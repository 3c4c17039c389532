import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { redmine } from '../../../../src/connectors/redmine/index.ts';
import type { WorkItem } from '../../../../src/model/item.ts';

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/redmine/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Record<string, unknown>;
const given = { url: 'https://redmine.example.com/tracker/', projects: ['web*'] };
const { issue } = fixture('issues.get') as { issue: object };

const ofRead = (event: string, payload: unknown, more: object = {}) =>
  redmine.translate(
    { source: 'fetch', event, body: Buffer.from(JSON.stringify(payload)) },
    redmine.options.parse({ ...given, ...more }),
  );
const items = (translation: ReturnType<typeof ofRead>): readonly WorkItem[] => {
  if (translation.outcome !== 'items') throw new Error(JSON.stringify(translation));
  return translation.items as WorkItem[];
};
const itemWith = (fields: object, more: object = {}) =>
  items(ofRead('issues.get', { issue: { ...issue, ...fields } }, more))[0] as WorkItem;

it('a whole issue', () => {
  expect(itemWith({})).toEqual({
    kind: 'work_item',
    key: 'redmine:redmine.example.com:issue:318',
    connector: 'redmine',
    host: 'redmine.example.com',
    containerId: '12',
    containerName: 'Website',
    identifier: '#318',
    updatedAt: Date.UTC(2026, 2, 5, 9, 30),
    url: 'https://redmine.example.com/tracker/issues/318',
    title: 'Upload fails for files over 2 GB',
    description:
      '### Steps\n\n- Send a file of **3 GB**.\n- See [the task](https://work.example.com/tasks/BUG-12).\n\n```ruby\nupload("*big*")\n```',
    state: 'in_progress',
    isDropped: false,
    closedAt: null,
    rawState: 'In Progress',
    type: 'Bug',
    priority: 'High',
    assignees: ['9'],
    author: '7',
    createdAt: '2026-03-02T08:12:32Z',
  });
});

it('Markdown is taken as it is, and an empty text is none', () => {
  const description = '### Steps\r\n\r\n* one\r\n';
  expect(itemWith({ description }, { formatting: 'markdown' }).description).toBe('### Steps\n\n* one');
  for (const empty of [null, '', ' \r\n']) expect(itemWith({ description: empty }).description).toBeNull();
});

it('an issue keeps its key where the address changes and host does not', () => {
  expect(itemWith({}, { url: 'https://new.example.com', host: 'redmine.example.com' })).toMatchObject({
    key: 'redmine:redmine.example.com:issue:318',
    url: 'https://new.example.com/issues/318',
  });
});

it('a dropped issue has a status that is named, and a project that is read tells whether it is public', () => {
  const status = { id: 7, name: 'obsolete', is_closed: true };
  const dropped = [{}, { dropped: ['Obsolete'] }].map((more) => itemWith({ status }, more).isDropped);
  expect(dropped).toEqual([false, true]);
  expect(items(ofRead('issues.get', fixture('issues.hook')))[0]?.isPublic).toBe(true);
});

describe('states', () => {
  it.each([
    [{ id: 5, name: 'In Progress', is_closed: true }, 'done'],
    [{ id: 2, name: 'in progress', is_closed: false }, 'in_progress'],
    [{ id: 3, name: 'Resolved', is_closed: false }, 'open'],
    [{ id: 3, name: 'Resolved' }, undefined],
    [{ id: 3 }, undefined],
    [undefined, undefined],
  ])('%j is %s', (status, state) => {
    expect(itemWith({ status }).state).toBe(state);
  });

  it('are looked up where older versions do not tell, and absent where the list does not know them', () => {
    const found = items(ofRead('issues.list', fixture('issues.old-version')));
    expect(found.map(({ state }) => state)).toEqual(['done', 'open', undefined]);
    expect(found[2]?.rawState).toBe('Of tomorrow');
  });

  it('in progress are those that are named', () => {
    const status = { id: 3, name: 'Resolved', is_closed: false };
    expect(itemWith({ status }, { inProgress: ['resolved'] }).state).toBe('in_progress');
  });
});

it('who is left out is nobody, and who cannot be read is absent', () => {
  expect(itemWith({ assigned_to: undefined, author: undefined })).toMatchObject({ assignees: [], author: null });
  expect(itemWith({ assigned_to: null, author: null })).toMatchObject({ assignees: [], author: null });
  const unreadable = itemWith({ assigned_to: 'Ben', author: { name: 'Ada' } });
  expect(unreadable).not.toHaveProperty('assignees');
  expect(unreadable).not.toHaveProperty('author');
});

it('private issues are gone, and nothing of them is taken, unless they are wanted', () => {
  const page = fixture('issues.list');
  const shown = items(ofRead('issues.list', page)).filter(({ gone }) => !gone);
  expect(shown.map(({ identifier }) => identifier)).toEqual(['#318', '#319']);
  expect(items(ofRead('issues.list', page, { private: true })).filter(({ gone }) => !gone)).toHaveLength(3);
  const [hidden] = items(ofRead('issues.get', fixture('issues.private')));
  expect(hidden).toMatchObject({ gone: true });
  expect(hidden).not.toHaveProperty('title');
  expect(items(ofRead('issues.get', fixture('issues.private'), { private: true }))).toHaveLength(1);
});

describe('a webhook', () => {
  const ofHook = (payload: unknown) =>
    redmine.translate(
      { source: 'webhook', event: 'webhook', body: Buffer.from(JSON.stringify(payload)) },
      redmine.options.parse(given),
    );
  const wanted = {
    kind: 'work_item',
    key: 'redmine:redmine.example.com:issue:318',
    locator: { issueId: '318', projectId: '12', isFollowed: 'unknown' },
  };

  it.each(['issue.created', 'issue.updated', 'issue.deleted'])('%s says which issue to read', (name) => {
    expect(ofHook(fixture(name))).toEqual({ outcome: 'references', references: [wanted] });
  });
});

it('a reference to an item asks no more whether its project is followed', () => {
  const { key, locator } = redmine.reference(itemWith({}));
  expect([key, locator]).toEqual(['redmine:redmine.example.com:issue:318', { issueId: '318', projectId: '12' }]);
});
