import { describe, expect, it } from 'vitest';
import type { Capabilities } from '../../../../src/connectors/connector.ts';
import type { PullRequest } from '../../../../src/model/item.ts';
import type { ConnectorFacts } from '../../../../src/sync/reconcile/context.ts';
import {
  desiredRecord,
  differingFields,
  recordDiffers,
  sentRepoId,
} from '../../../../src/sync/reconcile/evaluate-record.ts';
import { bare, pull } from '../../../support/rows/items.ts';

const NAMES = { supportsReviewers: true, supportsLabels: true, supportsAssignees: true };
const ALL: Capabilities = { supportsDraft: true, ...NAMES };
const vendor = (capabilities = ALL): ConnectorFacts => ({ id: 'github', publicHost: 'github.com', capabilities });

const SENT: Partial<PullRequest> = {
  ...{ url: 'https://github.com/acme/app/pull/1', description: 'Why', author: 'mona', draft: true, state: 'merged' },
  ...{ assignees: [], createdAt: '2026-01-05T08:00:00Z', mergedAt: '2026-01-05T09:00:00Z' },
};
const FULL = pull({
  ...{ ...SENT, rawState: 'closed', headSha: '1'.repeat(40), repoName: 'acme/app' },
  ...{ reviewers: ['b', 'a'], labels: ['y', 'x', 'y'] },
});

describe('the desired record of a pull request', () => {
  it('contains the fields that the workspace accepts, and no others', () => {
    expect(desiredRecord(FULL, vendor())).toEqual({
      ...{ provider: 'github', repoId: '5001', identifier: '1', title: 'A change', headBranch: 'feature' },
      ...{ ...SENT, baseBranch: 'main', reviewers: ['a', 'b'], labels: ['x', 'y'] },
    });
  });

  it('leaves out the fields that the item does not carry', () => {
    const record = desiredRecord(pull({ state: undefined }), vendor());
    const fields = ['provider', 'repoId', 'identifier', 'title', 'headBranch', 'baseBranch'];
    expect(Object.keys(record ?? {}).toSorted()).toEqual(fields.toSorted());
  });

  it('is the same for the same names in any order', () => {
    const other = pull({ ...FULL, reviewers: ['a', 'b', 'a'], labels: ['x', 'y'] });
    expect(JSON.stringify(desiredRecord(other, vendor()))).toBe(JSON.stringify(desiredRecord(FULL, vendor())));
  });

  it.each([
    ['gone', { gone: true }],
    ['no title', { title: undefined }],
    ['an empty title', { title: '' }],
    ['no head branch', { headBranch: undefined }],
    ['no base branch', { baseBranch: undefined }],
  ])('is absent for an item that is incomplete: %s', (_, fields) => {
    expect(desiredRecord(pull(fields), vendor())).toBeUndefined();
  });

  it.each<[keyof Capabilities, string]>([
    ['supportsDraft', 'draft'],
    ['supportsReviewers', 'reviewers'],
    ['supportsLabels', 'labels'],
    ['supportsAssignees', 'assignees'],
  ])('without the capability %s has no field %s', (capability, field) => {
    expect(desiredRecord(FULL, vendor({ ...ALL, [capability]: false }))).not.toHaveProperty(field);
    expect(desiredRecord(FULL, vendor({}))).not.toHaveProperty(field);
    expect(desiredRecord(FULL, vendor())).toHaveProperty(field);
  });

  it.each([
    ['absent', undefined, undefined],
    ['null', null, ''],
    ['empty', '', ''],
    ['a text', 'Why', 'Why'],
  ])('has a description for one that is %s', (_, description, expected) => {
    expect(desiredRecord(pull({ description }), vendor())?.description).toBe(expected);
  });

  it.each([
    ['short enough', 'x'.repeat(255), 'x'.repeat(255)],
    ['cut', 'x'.repeat(256), `${'x'.repeat(254)}…`],
    ['cut before a pair that does not fit', `${'x'.repeat(253)}🐛${'x'.repeat(9)}`, `${'x'.repeat(253)}…`],
    ['cut behind a pair that fits', `${'x'.repeat(252)}🐛${'x'.repeat(9)}`, `${'x'.repeat(252)}🐛…`],
    ['a pair at the end', `${'x'.repeat(253)}🐛`, `${'x'.repeat(253)}🐛`],
  ])('a title is cut to 255 units: %s', (_, title, expected) => {
    const record = desiredRecord(pull({ title }), vendor());
    expect(record?.title).toBe(expected);
    expect(record?.title.isWellFormed()).toBe(true);
    expect(record?.title.length).toBeLessThanOrEqual(255);
  });

  it('cuts a description of over 200 000 characters', () => {
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
  ])('names the repository of %s as %s', (host, expected) => {
    expect(sentRepoId(bare(1, { host }), vendor())).toBe(expected);
    expect(desiredRecord(pull({ host }), vendor())?.repoId).toBe(expected);
  });
});

it('leaves out names that are so long that the workspace would reject the record', () => {
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

describe('the fields that differ from the known record', () => {
  it.each<[what: string, desired: object, known: object, expected: string[]]>([
    ['equal', { title: 'a', draft: false }, { title: 'a', draft: false }, []],
    ['another value', { title: 'a' }, { title: 'b' }, ['title']],
    ['several', { title: 'a', state: 'open', url: 'u' }, { title: 'b', state: 'closed', url: 'u' }, ['title', 'state']],
    ['an absent field', {}, { title: 'b', labels: ['x'] }, []],
    ['a field that is not known', { title: 'a' }, {}, ['title']],
    ['false is a value', { draft: false }, {}, ['draft']],
    ['empty text, null', { description: '' }, { description: null }, []],
    ['empty text, absent', { description: '' }, {}, []],
    ['null, empty text', { author: null }, { author: '' }, []],
    ['null, absent', { mergedAt: null }, {}, []],
    ['empty text, a text', { description: '' }, { description: 'x' }, ['description']],
    ['null, a text', { author: null }, { author: 'mona' }, ['author']],
    ['lists, equal', { labels: ['a', 'b'] }, { labels: ['a', 'b'] }, []],
    ['lists are sets: order', { labels: ['a', 'b'] }, { labels: ['b', 'a'] }, []],
    ['lists are sets: repeats', { labels: ['a', 'b'] }, { labels: ['b', 'a', 'b'] }, []],
    ['lists, one more', { labels: ['a', 'b'] }, { labels: ['a'] }, ['labels']],
    ['lists, one less', { labels: ['a'] }, { labels: ['a', 'b'] }, ['labels']],
    ['lists, another', { labels: ['a'] }, { labels: ['b'] }, ['labels']],
    ['an empty list, a list', { labels: [] }, { labels: ['a'] }, ['labels']],
    ['an empty list, none', { labels: [] }, { labels: null }, []],
    ['other spellings', { mergedAt: '2026-01-05T09:00:00Z' }, { mergedAt: '2026-01-05T09:00:00.000Z' }, []],
    ['instants with an offset', { createdAt: '2026-01-05T09:00:00Z' }, { createdAt: '2026-01-05T10:00:00+01:00' }, []],
    ['other instants', { mergedAt: '2026-01-05T09:00:00Z' }, { mergedAt: '2026-01-05T09:00:01Z' }, ['mergedAt']],
    ['a text that looks like one', { title: '2026-01-05T09:00:00Z' }, { title: '2026-01-05T09:00:00.000Z' }, ['title']],
  ])('%s', (_, desired, known, expected) => {
    expect(differingFields(desired as never, known as never)).toEqual(expected);
  });
});

describe('a record is written', () => {
  const OPEN = { title: 'a', state: 'open' };
  const DECLINED = { title: 'a', state: 'declined' };
  it.each([
    ['no known record', OPEN, undefined, true, true],
    ['the same', OPEN, OPEN, true, false],
    ['changed', OPEN, { ...OPEN, title: 'b' }, true, true],
    ['declined for good', { ...OPEN, title: 'b' }, DECLINED, false, false],
    ['declined, and can be reopened', OPEN, DECLINED, true, true],
    ['about to be declined', DECLINED, OPEN, false, true],
    ['closed, and cannot be reopened', OPEN, { ...OPEN, state: 'closed' }, false, true],
    ['never recorded and declined already', DECLINED, undefined, false, true],
  ])('%s: desired %j, known %j', (_, desired, known, reopensClosed, expected) => {
    expect(recordDiffers(desired, known, { reopensClosed })).toBe(expected);
  });
});
