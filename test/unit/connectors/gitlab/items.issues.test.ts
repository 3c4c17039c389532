import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Translation } from '../../../../src/connectors/connector.ts';
import { gitlab } from '../../../../src/connectors/gitlab/index.ts';

interface Payload {
  project: object;
  object_attributes: Record<string, unknown>;
  issue: Record<string, unknown>;
}

const read = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/gitlab/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Payload;
const optionsOf = (given: object = {}) =>
  gitlab.options.parse({ projects: ['acme/platform/api'], issues: true, ...given });
const ofHook = (payload: unknown, event = 'Issue Hook', given: object = {}): Translation =>
  gitlab.translate({ source: 'webhook', event, body: Buffer.from(JSON.stringify(payload)) }, optionsOf(given));
const ofList = (payload: unknown, given: object = {}): Translation =>
  gitlab.translate(
    { source: 'poll', event: 'issues.list', body: Buffer.from(JSON.stringify(payload)) },
    optionsOf(given),
  );
const itemsOf = (translation: Translation) => (translation.outcome === 'items' ? translation.items : []);

const hook = read('issue.open');
const ISSUE = {
  kind: 'work_item',
  key: 'gitlab:gitlab.com:issue:4400',
  connector: 'gitlab',
  host: 'gitlab.com',
  containerId: '80200',
  containerName: 'acme/platform/api',
  identifier: '#4',
  state: 'open',
  rawState: 'opened',
  title: 'Errors have no type',
  description: 'Callers must parse the text.',
  labels: ['api', 'errors'],
  assignees: ['ben'],
  type: 'issue',
  url: 'https://gitlab.com/acme/platform/api/-/issues/4',
  createdAt: '2026-03-01T08:00:00.000Z',
  isDropped: false,
};

describe('an issue', () => {
  it('of a webhook is whole but for its author', () => {
    expect(itemsOf(ofHook(hook))).toEqual([
      { ...ISSUE, isPublic: false, isCreation: true, updatedAt: Date.parse('2026-03-01T08:00:00Z') },
    ]);
  });

  it('of a comment lacks the names of the people', () => {
    const { assignees: _, ...known } = ISSUE;
    expect(itemsOf(ofHook(read('note.on-issue'), 'Note Hook'))).toEqual([
      { ...known, isPublic: false, updatedAt: Date.parse('2026-03-02T08:55:00Z') },
    ]);
  });

  it('of the API has its author too, and is the same otherwise', () => {
    expect(itemsOf(ofList([read('issues.get')]))).toEqual([
      { ...ISSUE, author: 'ada', closedAt: null, updatedAt: Date.parse('2026-03-02T08:55:00Z') },
    ]);
  });

  it('that is closed is done; a deleted author is null; every form of the type is read', () => {
    const [incident] = itemsOf(ofList(read('issues.list')));
    expect(incident).toMatchObject({
      state: 'done',
      rawState: 'closed',
      type: 'incident',
      author: null,
      assignees: [],
    });
    const testCase = structuredClone(hook);
    testCase.object_attributes.type = 'Test Case';
    expect(itemsOf(ofHook(testCase))[0]).toMatchObject({ type: 'test_case' });
  });

  it.each([
    [
      { state: 'closed', duplicated_to_id: 4401, closed_at: '2026-03-02 09:00:00 UTC' },
      true,
      '2026-03-02T09:00:00.000Z',
    ],
    [
      { state: 'closed', duplicated_to_id: null, closed_at: '2026-03-02 09:00:00 UTC' },
      undefined,
      '2026-03-02T09:00:00.000Z',
    ],
    [{ state: 'opened', duplicated_to_id: null, closed_at: null }, false, null],
  ])('with %j is dropped: %s, and closed at %s', (fields, isDropped, closedAt) => {
    const [item] = itemsOf(ofHook({ ...hook, object_attributes: { ...hook.object_attributes, ...fields } }));
    expect([item?.kind === 'work_item' ? item.isDropped : 'no issue', item?.closedAt]).toEqual([isDropped, closedAt]);
  });

  it('keeps its key under another path, in another project and on another host', () => {
    const moved = structuredClone(hook);
    moved.project = { id: 9, path_with_namespace: 'acme/gateway' };
    const given = { projects: ['acme/*'], host: 'git.example.com' };
    expect(itemsOf(ofHook(moved, 'Issue Hook', given))[0]).toMatchObject({
      key: 'gitlab:git.example.com:issue:4400',
      containerId: '9',
      containerName: 'acme/gateway',
    });
  });

  it('a task arrives under either name of its event', () => {
    for (const event of ['Issue Hook', 'Work Item Hook'])
      expect(itemsOf(ofHook(read('work_item.task'), event))[0]).toMatchObject({
        identifier: '#6',
        type: 'task',
        state: 'done',
        description: '',
        assignees: [],
      });
  });

  it.each(['state', 'title', 'description'])('without %s is fetched', (field) => {
    const drifted = structuredClone(hook);
    delete drifted.object_attributes[field];
    expect(ofHook(drifted)).toEqual({
      outcome: 'references',
      references: [{ kind: 'work_item', key: ISSUE.key, locator: { projectId: '80200', iid: '4', id: '4400' } }],
    });
  });

  it('that is gone has no fields but its identity', () => {
    const body = readFileSync(new URL('../../../../src/connectors/gitlab/fixtures/issues.gone.json', import.meta.url));
    const [gone] = itemsOf(gitlab.translate({ source: 'fetch', event: 'issues.gone', body }, optionsOf()));
    expect(gone).toEqual({
      kind: 'work_item',
      key: ISSUE.key,
      connector: 'gitlab',
      host: 'gitlab.com',
      containerId: '80200',
      identifier: '#4',
      updatedAt: Date.parse('2026-03-05T00:00:00Z'),
      gone: true,
    });
  });
});

describe('what is confidential', () => {
  const confidential = read('issue.confidential');
  /** Gone, and not a word of what it says. */
  const HIDDEN = ['connector', 'containerId', 'gone', 'host', 'identifier', 'key', 'kind', 'updatedAt'];
  const toldBy = (translation: ReturnType<typeof ofHook>) => {
    const [item] = itemsOf(translation);
    return item?.gone === true ? Object.keys(item).sort() : item;
  };

  it('is taken only where that is wanted', () => {
    expect(toldBy(ofHook(confidential, 'Confidential Issue Hook'))).toEqual(HIDDEN);
    expect(toldBy(ofHook(confidential, 'Issue Hook'))).toEqual(HIDDEN);
    expect(ofHook(confidential, 'Confidential Issue Hook', { confidential: true })).toMatchObject({
      outcome: 'references',
      references: [{ locator: { projectId: '80200', iid: '5' } }],
    });
  });

  it('is gone in pages and fetched objects', () => {
    const shown = itemsOf(ofList(read('issues.list'))).filter(({ gone }) => !gone);
    expect(shown.map((item) => (item as { identifier?: string }).identifier)).toEqual(['#7', '#4']);
    expect(itemsOf(ofList(read('issues.list'), { confidential: true })).filter(({ gone }) => !gone)).toHaveLength(3);
    const body = Buffer.from(JSON.stringify({ ...read('issues.get'), confidential: true }));
    expect(toldBy(gitlab.translate({ source: 'fetch', event: 'issues.get', body }, optionsOf()))).toEqual(HIDDEN);
  });

  it('includes an issue whose flag cannot be read', () => {
    const drifted = structuredClone(hook);
    drifted.object_attributes.confidential = 'maybe';
    expect(toldBy(ofHook(drifted))).toEqual(HIDDEN);
  });

  it('comments on it too', () => {
    const note = read('note.on-issue');
    note.issue.confidential = true;
    expect(toldBy(ofHook(note, 'Confidential Note Hook'))).toEqual(HIDDEN);
    expect(ofHook(note, 'Confidential Note Hook', { confidential: true }).outcome).toBe('references');
  });
});

describe('where issues are not followed', () => {
  it.each(['Issue Hook', 'Work Item Hook', 'Confidential Issue Hook', 'Confidential Note Hook'])(
    '%s is ignored',
    (event) => {
      expect(ofHook(hook, event, { issues: false })).toEqual({ outcome: 'ignored', reason: 'event_not_followed' });
    },
  );

  it('a comment on one is ignored', () => {
    expect(ofHook(read('note.on-issue'), 'Note Hook', { issues: false })).toEqual({
      outcome: 'ignored',
      reason: 'not_a_merge_request',
    });
  });
});
