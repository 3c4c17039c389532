import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { gitlab } from '../../../../src/connectors/gitlab/index.ts';
import type { PullRequest } from '../../../../src/model/item.ts';

type Json = Record<string, unknown>;

const fixture = (name: string) =>
  JSON.parse(
    readFileSync(new URL(`../../../../src/connectors/gitlab/fixtures/${name}.json`, import.meta.url), 'utf8'),
  ) as Json;
const options = gitlab.options.parse({ projects: ['Acme/Platform/API'] });
const rest = fixture('merge_requests.get');
const hook = fixture('merge_request.open');
const attributes = hook['object_attributes'] as Json;

const ofList = (list: unknown, given = options) =>
  gitlab.translate({ source: 'poll', event: 'merge_requests.list', body: Buffer.from(JSON.stringify(list)) }, given);
const ofHook = (payload: unknown, event = 'Merge Request Hook', given = options) =>
  gitlab.translate({ source: 'webhook', event, body: Buffer.from(JSON.stringify(payload)) }, given);
const withAttributes = (fields: Json, more: Json = {}) =>
  ofHook({ ...hook, object_attributes: { ...attributes, ...fields }, ...more });
const onlyItem = (translation: ReturnType<typeof ofList>): PullRequest => {
  if (translation.outcome !== 'items') throw new Error(translation.outcome);
  return translation.items[0] as PullRequest;
};
const reference = {
  kind: 'pull_request',
  key: 'gitlab:gitlab.com:80200:pull:12',
  locator: { projectId: '80200', iid: '12' },
};

describe('a whole merge request', () => {
  const common = {
    kind: 'pull_request',
    key: 'gitlab:gitlab.com:80200:pull:12',
    connector: 'gitlab',
    host: 'gitlab.com',
    repoId: '80200',
    repoName: 'acme/platform/api',
    identifier: '12',
    updatedAt: Date.UTC(2026, 2, 2, 8),
    url: 'https://gitlab.com/acme/platform/api/-/merge_requests/12',
    title: 'Answer with problem details (BUG-12)',
    description: 'Errors get a type and a title.\n\nSee BUG-12.',
    labels: ['api', 'errors'],
    assignees: ['ben'],
    reviewers: ['ben', 'cho'],
    createdAt: '2026-03-02T08:00:00.000Z',
    state: 'open',
    rawState: 'opened',
    draft: false,
    headBranch: 'bug-12-problem-details',
    headSha: '9f2c1a7be04d5c6f8a90b1e2d3c4f5a6b7c8d9e0',
    baseBranch: 'main',
  };

  it('of a webhook has every field but the author and the time of the merge', () => {
    expect(onlyItem(ofHook(hook))).toEqual({ ...common, isCreation: true });
  });

  it('of the API is the same, with those two', () => {
    expect(onlyItem(ofList([rest]))).toEqual({ ...common, author: 'ada', mergedAt: null });
  });

  it('of a comment is the same, without the people', () => {
    const { assignees: _a, reviewers: _r, ...others } = common;
    const item = onlyItem(ofHook(fixture('note.on-merge-request'), 'Note Hook'));
    expect(item).toEqual({ ...others, updatedAt: Date.UTC(2026, 2, 2, 8, 50) });
  });

  it('keeps when it was merged', () => {
    const merged = { ...rest, state: 'merged', merged_at: '2026-03-03T10:00:00.120+02:00' };
    expect(onlyItem(ofList([merged]))).toMatchObject({ state: 'merged', mergedAt: '2026-03-03T08:00:00.120Z' });
    expect(onlyItem(ofHook(fixture('merge_request.merge')))).not.toHaveProperty('mergedAt');
  });

  it('takes no address that is not one of the web', () => {
    expect(onlyItem(ofList([{ ...rest, web_url: 'javascript:alert(1)' }]))).not.toHaveProperty('url');
  });
});

describe('times', () => {
  it.each([
    '2026-03-02 08:00:00 UTC',
    '2026-03-02 10:00:00 +0200',
    '2026-03-02 04:30:00 -0330',
    '2026-03-02T08:00:00Z',
    '2026-03-02T08:00:00.999Z',
    '2026-03-02T10:00:00+02:00',
  ])('%s is read to the second', (time) => {
    expect(onlyItem(withAttributes({ updated_at: time })).updatedAt).toBe(Date.UTC(2026, 2, 2, 8));
  });

  it.each(['2026-03-02 08:00:00', '2026-03-02 08:00:00 CET', 'yesterday', 1_772_438_400, null])(
    '%j is none: what has it is fetched, and what was fetched with it is malformed',
    (time) => {
      expect(withAttributes({ updated_at: time })).toEqual({ outcome: 'references', references: [reference] });
      expect(() => ofList([{ ...rest, updated_at: time }])).toThrow(
        expect.objectContaining({ code: 'delivery_malformed' }),
      );
    },
  );
});

describe('state', () => {
  it.each(['locked', 'parked', 7, undefined])('%j makes intake fetch it, and the stored one stays', (state) => {
    expect(withAttributes({ state })).toEqual({ outcome: 'references', references: [reference] });
    expect(
      ofList([
        { ...rest, iid: 13 },
        { ...rest, state },
      ]),
    ).toMatchObject({
      outcome: 'items',
      items: [{ identifier: '13' }],
      references: [reference],
    });
    const body = Buffer.from(JSON.stringify({ ...rest, state }));
    const item = onlyItem(gitlab.translate({ source: 'fetch', event: 'merge_requests.get', body }, options));
    expect(item).not.toHaveProperty('state');
  });

  it('reads draft under its old name too', () => {
    expect(onlyItem(withAttributes({ draft: undefined, work_in_progress: true })).draft).toBe(true);
    expect(onlyItem(withAttributes({ draft: true, work_in_progress: false })).draft).toBe(true);
  });
});

describe('people', () => {
  const nobody = { assignees: undefined, reviewers: undefined };

  it('are an empty list only where the list of numbers is empty', () => {
    const item = onlyItem(withAttributes({ assignee_ids: [], reviewer_ids: [] }, nobody));
    expect(item).toMatchObject({ assignees: [], reviewers: [] });
  });

  it('are absent where the event has only numbers, or no list', () => {
    for (const fields of [{}, { assignee_ids: undefined, reviewer_ids: undefined }]) {
      const item = onlyItem(withAttributes(fields, nobody));
      expect(item).not.toHaveProperty('assignees');
      expect(item).not.toHaveProperty('reviewers');
    }
  });

  it('who act do not count as the author', () => {
    expect(onlyItem(ofHook(hook))).not.toHaveProperty('author');
  });
});

describe('a payload that has drifted', () => {
  it.each(['title', 'source_branch', 'target_branch', 'description'])('without %s is fetched', (field) => {
    expect(withAttributes({ [field]: undefined })).toMatchObject({ outcome: 'references' });
    expect(ofList([{ ...rest, [field]: 7 }])).toMatchObject({ outcome: 'references' });
  });

  it.each(['labels', 'assignees', 'reviewers', 'draft', 'sha'])('without %s leaves it absent', (field) => {
    const fields = { draft: undefined, work_in_progress: undefined };
    const { [field]: _, ...less } = field === 'draft' ? { ...rest, ...fields } : rest;
    expect(onlyItem(ofList([less]))).not.toHaveProperty(field === 'sha' ? 'headSha' : field);
  });

  it.each(['object_kind', 'object_attributes'])('without %s is malformed', (field) => {
    const { [field]: _, ...less } = hook;
    expect(() => ofHook(less)).toThrow(expect.objectContaining({ code: 'delivery_malformed' }));
  });
});

describe('scope', () => {
  it.each([['acme/platform/api'], ['ACME/platform/Api'], ['80200'], [80200]])('%j is this project', (project) => {
    const given = gitlab.options.parse({ projects: [project] });
    expect(ofHook(hook, 'Merge Request Hook', given).outcome).toBe('items');
  });

  it('leaves other projects out, comments too', () => {
    const outside = { outcome: 'ignored', reason: 'project_not_in_scope' };
    for (const project of ['acme/api', 'platform/api', 'acme/platform/api2', '8020', '802000']) {
      const given = gitlab.options.parse({ projects: [project] });
      expect(ofHook(hook, 'Merge Request Hook', given)).toEqual(outside);
      expect(ofHook(fixture('note.on-merge-request'), 'Note Hook', given)).toEqual(outside);
    }
  });

  it('takes pages and fetched objects, also under a new path', () => {
    const moved = { ...rest, references: { full: 'acme/gateway!12' } };
    expect(onlyItem(ofList([moved])).repoName).toBe('acme/gateway');
  });

  it.each(['Confidential Note Hook', 'Push Hook', 'Issue Hook', 'Pipeline Hook'])('does not follow %s', (event) => {
    expect(ofHook(hook, event)).toEqual({ outcome: 'ignored', reason: 'event_not_followed' });
  });
});

describe('a webhook that names its project elsewhere', () => {
  const { project, ...nameless } = hook;
  const path = (project as Json)['path_with_namespace'];
  const unjudged = { ...reference, locator: { ...reference.locator, isFollowed: 'unknown' } };

  it.each<[string, Json]>([
    ['project_id', { project_id: 80200 }],
    ['object_attributes.target_project_id', { object_attributes: { ...attributes, target_project_id: 80200 } }],
    ['a project without its path', { project: { id: 80200 } }],
  ])('by %s alone, is fetched and judged then', (_, more) => {
    const { target_project_id: __, target: ___, ...own } = attributes;
    expect(ofHook({ ...nameless, object_attributes: own, ...more })).toEqual({
      outcome: 'references',
      references: [unjudged],
    });
  });

  it('and its path in the target, is taken as it is', () => {
    const own = { ...attributes, target_project_id: 80200, target: { path_with_namespace: path } };
    expect(onlyItem(ofHook({ ...nameless, object_attributes: own }))).toEqual(onlyItem(ofHook(hook)));
  });

  it('by its number is judged by the number where the configuration names that', () => {
    const byNumber = (given: object) =>
      ofHook({ ...nameless, project_id: 80200 }, undefined, gitlab.options.parse(given));
    expect(byNumber({ projects: ['80200'] }).outcome).toBe('items');
    expect(byNumber({ projects: ['acme/*'], exclude: ['80200'] })).toEqual({
      outcome: 'ignored',
      reason: 'project_not_in_scope',
    });
  });

  it('nowhere is malformed', () => {
    const { target_project_id: _, target: __, ...own } = attributes;
    expect(() => ofHook({ ...nameless, object_attributes: own })).toThrow(
      expect.objectContaining({ code: 'delivery_malformed' }),
    );
  });

  it('what was fetched is judged by its path', () => {
    const fetched = (payload: unknown) =>
      gitlab.translate(
        { source: 'fetch', event: 'merge_requests.judged', body: Buffer.from(JSON.stringify(payload)) },
        options,
      );
    expect(fetched(rest)).toMatchObject({ outcome: 'items', items: [{ key: reference.key }] });
    expect(fetched({ ...rest, references: { full: 'other/web!12' } })).toEqual({
      outcome: 'ignored',
      reason: 'project_not_in_scope',
    });
    expect(fetched({ ...rest, references: undefined })).toMatchObject({ outcome: 'ignored' });
  });
});

it('a hook of the whole server brings merge requests like any other, and nothing else', () => {
  expect(ofHook(hook, 'System Hook')).toEqual(ofHook(hook));
  for (const payload of [
    { event_name: 'project_create', project_id: 1 },
    { object_kind: 'push', project_id: 1 },
  ])
    expect(ofHook(payload, 'System Hook')).toEqual({ outcome: 'ignored', reason: 'event_not_followed' });
});
