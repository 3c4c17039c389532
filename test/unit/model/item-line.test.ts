import { expect, it } from 'vitest';
import { itemLine, lastLine, withItemLine } from '../../../src/model/item-line.ts';

const LINE = 'Source: https://jira.example/browse/BUG-1';

it('names the address of the item, or the item where it has none', () => {
  const item = { connector: 'jira', identifier: 'BUG-1' };
  expect(itemLine({ ...item, url: 'https://jira.example/browse/BUG-1' })).toBe(LINE);
  expect(itemLine(item)).toBe('Source: jira BUG-1');
});

it.each([undefined, null, '', ' \n', 'short', 'two\nlines\n\n', 'x'.repeat(500)])(
  'ends the description %j with the line, within the limit',
  (description) => {
    const text = withItemLine(description, LINE, 100);
    expect(text.length).toBeLessThanOrEqual(100);
    expect(lastLine(text)).toBe(LINE);
    expect(text.startsWith((description ?? '').trimEnd().slice(0, 20))).toBe(true);
  },
);

it.each([
  [undefined, ''],
  [null, ''],
  ['', ''],
  ['one', 'one'],
  ['one\r\n  two  \n\n', 'two'],
])('the last line of %j is %j', (text, line) => {
  expect(lastLine(text)).toBe(line);
});
