import { describe, expect, it } from 'vitest';
import type { Capabilities } from '../../../../src/connectors/connector.ts';
import { desiredLink, desiredRecord, sentRepoId, type Vendor } from '../../../../src/sync/reconcile/desired.ts';
import { bare, pull } from '../../../support/items.ts';

const ALL: Capabilities = {
  supportsDraft: true,
  supportsReviewers: true,
  supportsLabels: true,
  supportsAssignees: true,
};
const vendor = (capabilities: Capabilities = ALL): Vendor => ({
  id: 'github',
  publicHost: 'github.com',
  capabilities,
});

const FULL = pull({
  url: 'https://github.com/acme/app/pull/1',
  description: 'Why',
  author: 'mona',
  draft: true,
  state: 'merged',
  rawState: 'closed',
  headSha: '1'.repeat(40),
  repoName: 'acme/app',
  reviewers: ['b', 'a'],
  labels: ['y', 'x', 'y'],
  assignees: [],
  createdAt: '2026-01-05T08:00:00Z',
  mergedAt: '2026-01-05T09:00:00Z',
});

describe('the record of a pull request', () => {
  it('holds what the workspace takes, and nothing else', () => {
    expect(desiredRecord(FULL, vendor())).toEqual({
      provider: 'github',
      repoId: '5001',
      identifier: '1',
      title: 'A change',
      description: 'Why',
      headBranch: 'feature',
      baseBranch: 'main',
      state: 'merged',
      draft: true,
      url: 'https://github.com/acme/app/pull/1',
      author: 'mona',
      reviewers: ['a', 'b'],
      labels: ['x', 'y'],
      assignees: [],
      createdAt: '2026-01-05T08:00:00Z',
      mergedAt: '2026-01-05T09:00:00Z',
    });
  });

  it('has no opinion where the item carries nothing', () => {
    const record = desiredRecord(pull({ state: undefined }), vendor());
    expect(Object.keys(record ?? {}).sort()).toEqual(
      ['provider', 'repoId', 'identifier', 'title', 'headBranch', 'baseBranch'].sort(),
    );
  });

  it('is the same for the same content, whatever its order', () => {
    const other = pull({ ...FULL, reviewers: ['a', 'b', 'a'], labels: ['x', 'y'] });
    expect(JSON.stringify(desiredRecord(other, vendor()))).toBe(JSON.stringify(desiredRecord(FULL, vendor())));
  });

  it.each([
    ['gone', { gone: true }],
    ['no title', { title: undefined }],
    ['an empty title', { title: '' }],
    ['no head branch', { headBranch: undefined }],
    ['no base branch', { baseBranch: undefined }],
  ])('is not wanted while it is incomplete: %s', (_, fields) => {
    expect(desiredRecord(pull(fields), vendor())).toBeUndefined();
  });

  it('is wanted of something that is not gone any more', () => {
    expect(desiredRecord(pull({ gone: false }), vendor())).toBeDefined();
  });

  it.each<[keyof Capabilities, string]>([
    ['supportsDraft', 'draft'],
    ['supportsReviewers', 'reviewers'],
    ['supportsLabels', 'labels'],
    ['supportsAssignees', 'assignees'],
  ])('without %s says nothing of %s', (capability, field) => {
    expect(desiredRecord(FULL, vendor({ ...ALL, [capability]: false }))).not.toHaveProperty(field);
    expect(desiredRecord(FULL, vendor({}))).not.toHaveProperty(field);
    expect(desiredRecord(FULL, vendor())).toHaveProperty(field);
  });

  it.each([
    ['absent', undefined, undefined],
    ['null', null, ''],
    ['empty', '', ''],
    ['a text', 'Why', 'Why'],
  ])('a description that is %s', (_, description, expected) => {
    expect(desiredRecord(pull({ description }), vendor())?.description).toBe(expected);
  });

  it.each([
    ['as it is', 'x'.repeat(255), 'x'.repeat(255)],
    ['cut', 'x'.repeat(256), `${'x'.repeat(254)}…`],
    ['cut before a pair that does not fit', `${'x'.repeat(253)}🐛${'x'.repeat(9)}`, `${'x'.repeat(253)}…`],
    ['cut behind a pair that fits', `${'x'.repeat(252)}🐛${'x'.repeat(9)}`, `${'x'.repeat(252)}🐛…`],
    ['a pair at the end as it is', `${'x'.repeat(253)}🐛`, `${'x'.repeat(253)}🐛`],
  ])('a long title: %s', (_, title, expected) => {
    const record = desiredRecord(pull({ title }), vendor());
    expect(record?.title).toBe(expected);
    expect(record?.title.isWellFormed()).toBe(true);
    expect(record?.title.length).toBeLessThanOrEqual(255);
  });

  it('a description of over 200 000 characters is cut', () => {
    const description = desiredRecord(pull({ description: '🐛'.repeat(150_000) }), vendor())?.description;
    expect(description?.length).toBeLessThanOrEqual(200_000);
    expect(description?.length).toBeGreaterThan(199_990);
    expect(description?.isWellFormed()).toBe(true);
    expect(description?.endsWith('…')).toBe(true);
  });

  it.each([
    ['github.com', '5001'],
    ['github.acme.example', 'github.acme.example:5001'],
    ['acme.ghe.com', 'acme.ghe.com:5001'],
  ])('the repository id of %s is sent as %s', (host, expected) => {
    expect(sentRepoId(bare(1, { host }), vendor())).toBe(expected);
    expect(desiredRecord(pull({ host }), vendor())?.repoId).toBe(expected);
  });
});

it('names that no vendor lets people write are left out, since they would have the record refused', () => {
  const long = 'x'.repeat(256);
  const many = Array.from({ length: 1_001 }, (_, at) => `label ${at}`);
  const record = desiredRecord(
    pull({ author: long, labels: many, reviewers: [long, 'a'], assignees: [long] }),
    vendor(),
  );
  expect(record).toMatchObject({ reviewers: ['a'], assignees: [] });
  expect(record?.labels).toHaveLength(1_000);
  expect(record).not.toHaveProperty('author');
  expect(desiredRecord(pull({ author: 'x'.repeat(255) }), vendor())?.author).toHaveLength(255);
});

describe('the link of an item', () => {
  const URL = 'https://github.com/acme/app/pull/1';

  it('names item and provider', () => {
    expect(desiredLink(FULL)).toEqual({
      url: URL,
      title: 'A change',
      externalId: 'worksync:github:github.com:5001:pull:1',
      provider: 'github',
    });
  });

  it('needs a URL', () => {
    expect(desiredLink(pull())).toBeUndefined();
    expect(desiredLink(pull({ url: '' }))).toBeUndefined();
  });

  it('needs no title, and cuts a long one', () => {
    expect(desiredLink(bare(1, { url: URL }))).not.toHaveProperty('title');
    expect(desiredLink(pull({ url: URL, title: 'x'.repeat(300) }))?.title).toBe(`${'x'.repeat(254)}…`);
  });
});
