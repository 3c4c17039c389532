import { expect, test } from 'vitest';
import {
  formerNamesOf,
  namesOfItem,
  normalUrl,
  placedNamesOf,
} from '../../../../../src/sync/reconcile/link-rules/lookup-names.ts';
import { PLAIN_GRAMMAR } from '../../../../../src/sync/reconcile/link-rules/scan.ts';
import { workItem } from '../../../../support/rows/items.ts';

const LONGEST_URL = `https://a.example/${'x'.repeat(2_048 - 18)}`;

test.each<[text: string, normal: string | undefined]>([
  ['https://A.example/b/?q=1#c', 'a.example/b'],
  ['http://a.example:8080//', 'a.example:8080'],
  ['ftp://a.example/b', undefined],
  ['a.example/b', undefined],
  [LONGEST_URL, LONGEST_URL.slice(8)],
  [`${LONGEST_URL}x`, undefined],
])('the address %j is looked up as %j', (text, normal) => {
  expect(normalUrl(text)).toBe(normal);
});

const names = (form: string, fields: Parameters<typeof workItem>[0] = {}) =>
  namesOfItem(workItem({ containerId: '10', containerName: 'Web', ...fields }), {
    ...PLAIN_GRAMMAR,
    names: [form as 'key'],
  });

test.each<[form: string, identifier: string, expected: string[]]>([
  ['key', 'eng-1', ['ENG-1']],
  ['key', '#1', []],
  ['short-id', 'Web_A-1B', ['WEB_A-1B']],
  ['number', '#12', ['jira:cloud-1:10#12', 'jira:cloud-1:web#12']],
  ['number', '0012', ['jira:cloud-1:10#12', 'jira:cloud-1:web#12']],
  ['number', 'none', []],
  ['host-number', '12', ['jira:cloud-1#12']],
  ['AB#', '12', ['AB#12']],
  ['AB#', '0', []],
])('the form %j names the work item %j as %j', (form, identifier, expected) => {
  expect(names(form, { identifier })).toEqual(expected);
});

test('a container without a name is identified by its id only', () => {
  expect(names('number', { identifier: '12', containerName: undefined })).toEqual(['jira:cloud-1:10#12']);
});

test('the address is a name too, unless it is too long', () => {
  const named = (length: number) =>
    names('AB#', { url: `https://a.example/${'x'.repeat(length - 'url:a.example/'.length)}` });
  expect(named(512)[0]).toHaveLength(512);
  expect(named(513)).toEqual(['AB#1']);
});

test('a former identifier gives a former key and a former address', () => {
  const moved = workItem({ identifier: 'OPS-3', formerIdentifiers: ['ENG-1'], url: 'https://a.example/browse/OPS-3' });
  expect(formerNamesOf(moved, PLAIN_GRAMMAR)).toEqual(['url:a.example/browse/ENG-1', 'ENG-1']);
});

test('a name belongs to the place whose name it contains', () => {
  const item = workItem({
    containerId: '7',
    containerName: 'Acme/Web',
    identifier: '#5',
    url: 'https://a.example/acme/web/issues/5',
  });
  const grammar = { ...PLAIN_GRAMMAR, names: ['number' as const] };
  const place = `${item.connector}:${item.host}:acme/web`;
  expect(placedNamesOf(item, grammar)).toEqual([
    { name: 'url:a.example/acme/web/issues/5', place, container: '7' },
    { name: `${item.connector}:${item.host}:7#5`, place: null, container: null },
    { name: `${item.connector}:${item.host}:acme/web#5`, place, container: '7' },
  ]);
});
