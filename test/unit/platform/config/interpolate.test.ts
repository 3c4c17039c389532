import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createVariables, type Environment, interpolate } from '../../../../src/platform/config/interpolate.ts';
import { folderOf } from '../../../support/rows/config-files.ts';

const run = (source: string, env: Environment = {}) => interpolate(source, createVariables(env));

describe('what a text becomes', () => {
  const env = { A: 'alpha', EMPTY: '', PEM: '-----BEGIN-----\\nabc\\n', DOLLAR: `\${A} $$` };
  test.each([
    ['plain', 'plain'],
    ['$5 and $', '$5 and $'],
    ['$$', '$'],
    [`$\${A}`, `\${A}`],
    [`$$\${A}`, '$alpha'],
    [`\${A}`, 'alpha'],
    [`<\${A}-\${A}>`, '<alpha-alpha>'],
    [`\${A:-other}`, 'alpha'],
    [`\${A:?needed}`, 'alpha'],
    [`\${B:-other}`, 'other'],
    [`\${B:-}`, ''],
    [`\${B:-a:-b $ c}`, 'a:-b $ c'],
    [`\${EMPTY:-other}`, 'other'],
    [`\${PEM}`, '-----BEGIN-----\\nabc\\n'],
    [`\${DOLLAR}`, `\${A} $$`],
  ])('%s → %s', (source, text) => {
    expect(run(source, env)).toMatchObject({ text, problems: [] });
  });

  const FORMS = `expected \${NAME}, \${NAME:-default} or \${NAME:?message}; write $$ for a dollar sign`;
  test.each([
    [`\${B}`, ['variable B is not set: set it, or B_FILE to the path of a file']],
    [`\${EMPTY}`, ['variable EMPTY is not set: set it, or EMPTY_FILE to the path of a file']],
    [`\${B:?ask the admin}`, ['variable B is not set: ask the admin']],
    [`\${B:?}`, ['variable B is not set: set it, or B_FILE to the path of a file']],
    [
      `\${B} \${C:?no}`,
      ['variable B is not set: set it, or B_FILE to the path of a file', 'variable C is not set: no'],
    ],
    [`\${toString}`, ['variable toString is not set: set it, or toString_FILE to the path of a file']],
    [`\${__proto__}`, ['variable __proto__ is not set: set it, or __proto___FILE to the path of a file']],
    [`\${}`, [FORMS]],
    [`\${A`, [FORMS]],
    [`\${1A}`, [FORMS]],
    [`\${A-b}`, [FORMS]],
    [`\${ A }`, [FORMS]],
    [`\${B:-\${A}}`, [FORMS]],
    [`\${LINES}`, ['LINES contains a line break: put the value into a file and set LINES_FILE to its path']],
  ])('%s is refused', (source, problems) => {
    expect(run(source, { ...env, LINES: 'a\nb' }).problems).toEqual(problems);
  });

  test('any value comes through as it is, and any text without a dollar sign', () => {
    const line = fc.string({ minLength: 1 }).filter((text) => !/[\r\n]/.test(text));
    fc.assert(
      fc.property(line, (value) => {
        expect(run(`\${A}`, { A: value }).text).toBe(value);
      }),
    );
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(run(text.replaceAll('$', '$$$$')).text).toBe(text);
      }),
    );
  });
});

describe('values from files', () => {
  const withFile = (content: string, mode = 0o600) => {
    const path = join(folderOf({ secret: content }), 'secret');
    chmodSync(path, mode);
    return path;
  };

  test.each([
    ['value', 'value'],
    ['value\n', 'value'],
    ['value\r\n', 'value'],
    ['value\n\n', 'value'],
    [' value \t\r\n', 'value'],
    ['\ufeffvalue\n', 'value'],
    ['it\'s "quoted"', 'it\'s "quoted"'],
    ['two\nlines\n', 'two\nlines'],
  ])('%j → %j', (content, text) => {
    expect(run(`\${S}`, { S_FILE: withFile(content) })).toMatchObject({ text, problems: [] });
  });

  test('an empty NAME does not stand in the way', () => {
    expect(run(`\${S}`, { S: '', S_FILE: withFile('value') }).text).toBe('value');
  });

  test('a file comes before a default', () => {
    expect(run(`\${S:-other}`, { S_FILE: withFile('value') }).text).toBe('value');
  });

  test.each([
    ['both', (path: string) => ({ S: 'x', S_FILE: path }), 'x', () => 'both S and S_FILE are set'],
    ['empty', (path: string) => ({ S_FILE: path }), '\n', (path: string) => `S_FILE: ${path} is empty`],
    [
      'quoted',
      (path: string) => ({ S_FILE: path }),
      '"value"\n',
      (path: string) => `S_FILE: ${path} stands in quotes: a file holds the secret itself, without quotes`,
    ],
    [
      'UTF-16',
      (path: string) => ({ S_FILE: path }),
      'v\0a\0l\0u\0e\0',
      (path: string) => `S_FILE: ${path} is UTF-16 or no text: save it as UTF-8`,
    ],
    [
      'missing',
      (path: string) => ({ S_FILE: `${path}-not` }),
      'x',
      (path: string) => `S_FILE: cannot read ${path}-not (ENOENT)`,
    ],
    [
      'a folder',
      (path: string) => ({ S_FILE: join(path, '..') }),
      'x',
      (path: string) => `S_FILE: ${join(path, '..')} is a folder, not a regular file`,
    ],
    [
      'large',
      (path: string) => ({ S_FILE: path }),
      'x'.repeat(65_537),
      (path: string) => `S_FILE: ${path} is larger than 64 KiB`,
    ],
  ])('%s is refused, with a default or without', (_what, env, content, problem) => {
    const path = withFile(content);
    expect(run(`\${S}`, env(path)).problems).toEqual([problem(path)]);
    expect(run(`\${S:-other}`, env(path)).problems).toEqual([problem(path)]);
  });

  test.each([
    [0o600, 0],
    [0o640, 0],
    [0o644, 1],
    [0o604, 1],
  ])('mode %o gives %d warnings', (mode, count) => {
    const path = withFile('value', mode);
    const variables = createVariables({ S_FILE: path });
    interpolate(`\${S} \${S}`, variables);
    const octal = mode.toString(8).padStart(4, '0');
    const warning = `S_FILE: everybody may read ${path} (mode ${octal}); set its mode to 0600`;
    expect([...variables.warnings]).toEqual(count === 0 ? [] : [warning]);
  });
});

test('what was used is remembered, short values are not secrets', () => {
  const path = join(folderOf({ secret: 'from-a-file\n' }), 'secret');
  const variables = createVariables({ LONG: 'long-value', SHORT: '5m', UNUSED: 'unused-value', S_FILE: path });
  interpolate(`\${LONG} \${SHORT} \${S} \${ABSENT:-default-value}`, variables);
  expect([...variables.secrets]).toEqual(['long-value', 'from-a-file']);
  expect([...variables.files]).toEqual([path]);
});
