import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { eventsOf } from '../bench/quota/references/trace.ts';
import { readTrace } from '../bench/quota/trace-file.ts';
import { folderOfTest } from '../support/folder.ts';

let folder = '';
beforeEach(() => {
  folder = folderOfTest('trace');
});

function trace(...lines: readonly (object | string)[]): string {
  const path = join(folder, 'day.jsonl');
  writeFileSync(path, lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'));
  return path;
}

const line = { at: 3, connection: 'github', event: 'opened', item: 'app/1', fields: { title: 'One' } };

test('a trace is read in order of time, with what it leaves out', () => {
  const later = { ...line, at: 9, event: 'replay', updated: 3 };
  const lines = readTrace(trace(later, '', line));
  expect(lines.map(({ at, updated }) => [at, updated])).toEqual([
    [3, 3],
    [9, 3],
  ]);
  expect(lines[0]?.fields).toMatchObject({ state: 'open', draft: false, labels: [] });
  expect(eventsOf(lines)).toHaveLength(1);
});

test.each([
  ['no JSON', 'nonsense', /day\.jsonl:2: this is no JSON/],
  ['an item without a number', { ...line, item: 'app' }, /day\.jsonl:2: .*<repository>\/<number>/s],
  ['an unknown field', { ...line, fields: { title: 'One', labels: 'bug' } }, /day\.jsonl:2: /],
])('%s is refused by its line', (_what, wrong, message) => {
  expect(() => readTrace(trace(line, wrong))).toThrow(message);
});

test('an empty trace is refused', () => {
  expect(() => readTrace(trace(''))).toThrow(/nothing in it/);
});
