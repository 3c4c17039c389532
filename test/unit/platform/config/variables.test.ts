import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeEach, describe, expect, it, test } from 'vitest';
import { commandEnvironment } from '../../../../src/platform/config/config-files.ts';
import { createVariables, type Environment, interpolate } from '../../../../src/platform/config/interpolate.ts';
import { configuredTokens } from '../../../../src/platform/config/tokens.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';
import { folderOf, refusal } from '../../../support/rows/config-files.ts';

const run = (source: string, env: Environment = {}) => interpolate(source, createVariables(env));

describe('what a text becomes', () => {
  const env = { A: 'alpha', EMPTY: '', PEM: '-----BEGIN-----\\nabc\\n', DOLLAR: `\${A} $$` };
  test.each([
    [`$\${A}`, `\${A}`],
    [`$$\${A}`, '$alpha'],
    [`\${A}`, 'alpha'],
    [`\${A:-other}`, 'alpha'],
    [`\${B:-other}`, 'other'],
    [`\${EMPTY:-other}`, 'other'],
    [`\${DOLLAR}`, `\${A} $$`],
  ])('%s → %s', (source, text) => {
    expect(run(source, env)).toMatchObject({ text, problems: [] });
  });

  const FORMS = `expected \${NAME}, \${NAME:-default} or \${NAME:?message}; write $$ for a dollar sign`;
  test.each([
    [`\${B}`, ['variable B is not set: set it, or B_FILE to the path of a file']],
    [`\${EMPTY}`, ['variable EMPTY is not set: set it, or EMPTY_FILE to the path of a file']],
    [`\${B:?ask the admin}`, ['variable B is not set: ask the admin']],
    [`\${__proto__}`, ['variable __proto__ is not set: set it, or __proto___FILE to the path of a file']],
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
    ['value\n', 'value'],
    ['value\r\n', 'value'],
    ['\ufeffvalue\n', 'value'],
    ['two\nlines\n', 'two\nlines'],
  ])('%j → %j', (content, text) => {
    expect(run(`\${S}`, { S_FILE: withFile(content) })).toMatchObject({ text, problems: [] });
  });

  test.each<[what: string, content: string, problem: string, of?: (path: string) => Environment]>([
    ['both set', 'x', 'both S and S_FILE are set', (path) => ({ S: 'x', S_FILE: path })],
    ['empty', '\n', 'S_FILE: PATH is empty'],
    ['UTF-16', 'v\0a\0l\0u\0e\0', 'S_FILE: PATH is UTF-16 or no text: save it as UTF-8'],
    ['missing', 'x', 'S_FILE: cannot read PATH-not (ENOENT)', (path) => ({ S_FILE: `${path}-not` })],
    ['a folder', 'x', 'is a folder, not a regular file', (path) => ({ S_FILE: join(path, '..') })],
    ['large', 'x'.repeat(65_537), 'S_FILE: PATH is larger than 64 KiB'],
  ])('%s is refused, with a default or without', (_what, content, problem, of = (path) => ({ S_FILE: path })) => {
    const path = withFile(content);
    for (const text of [`\${S}`, `\${S:-other}`])
      expect(run(text, of(path)).problems).toEqual([expect.stringContaining(problem.replace('PATH', path))]);
  });

  test.each([
    [0o600, 0],
    [0o644, 1],
  ])('mode %o gives %d warnings', (mode, count) => {
    const path = withFile('value', mode);
    const variables = createVariables({ S_FILE: path });
    interpolate(`\${S} \${S}`, variables);
    const octal = mode.toString(8).padStart(4, '0');
    const warning = `S_FILE: everybody may read ${path} (mode ${octal}); set its mode to 0600`;
    expect([...variables.warnings]).toEqual(count === 0 ? [] : [warning]);
  });
});

let folder = '';
/** The path of the configuration folder in the form that people write. */
let config = '';

beforeEach(() => {
  folder = folderOfTest('env-file');
  config = join(folder, 'config/workspaces');
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, 'team.yaml'), 'connections: {}\n');
});

function writeEnv(text: string, mode = 0o600): string {
  const path = join(folder, '.env');
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

describe('.env', () => {
  it.each(['config', 'config/workspaces', 'config/workspaces/team.yaml'])(
    'is read beside the configuration: %s',
    (given) => {
      const path = writeEnv('TOKEN="a b#c"\nWORKSYNC_PORT=9000\n');
      const { settings, variables, file } = commandEnvironment({ config: join(folder, given) }, {});
      expect(file).toEqual({ path, used: ['TOKEN', 'WORKSYNC_PORT'], overridden: [], warnings: [] });
      expect(variables).toEqual({ TOKEN: 'a b#c', WORKSYNC_PORT: '9000' });
      // Only WORKSYNC_* reaches settings, and nothing reaches the process.
      expect(settings).toEqual({ WORKSYNC_PORT: '9000' });
      expect(process.env).not.toHaveProperty('WORKSYNC_PORT');
    },
  );

  it('yields to the environment, also where that names a file with the value', () => {
    writeEnv('TOKEN=file\nKEY=file\nOTHER_FILE=/file\nEMPTY=file\n');
    const env = { TOKEN: 'own', KEY_FILE: '/own', OTHER: 'own', EMPTY: '' };
    const { variables, file } = commandEnvironment({ config }, env);
    expect(variables).toEqual({ ...env, EMPTY: 'file' });
    expect(file).toMatchObject({ used: ['EMPTY'], overridden: ['KEY', 'OTHER_FILE', 'TOKEN'] });
  });

  it.each(['NODE_OPTIONS', 'npm_config_registry', 'HTTPS_PROXY', 'no_proxy', 'SSL_CERT_FILE', 'WORKSYNC_CONFIG'])(
    'refuses %s with its line',
    (name) => {
      const path = writeEnv(`A=1\n\nexport ${name}=x\n`);
      expect(() => commandEnvironment({ config }, {})).toThrow(`${path}:3: ${name} cannot be set in .env`);
    },
  );

  it('is refused where others may write it, and warns where they may read it', () => {
    const path = writeEnv('A=1\n', 0o646);
    expect(() => commandEnvironment({ config }, {})).toThrow(`${path}: everybody may write to it (mode 0646)`);
    writeEnv('A=1\n', 0o644);
    const { file } = commandEnvironment({ config }, {});
    expect(file?.warnings).toEqual([`everybody may read ${path} (mode 0644); set its mode to 0600`]);
  });

  it('names each line that is no assignment', () => {
    const path = writeEnv('# a comment\nPEM="one\ntwo\n"\n\nFOO\nexport A = 1\nTOKEN: abc\n');
    const { file } = commandEnvironment({ config }, {});
    const ignored = 'ignored, because it is not NAME=value';
    expect(file).toMatchObject({ used: ['A', 'PEM'], warnings: [`${path}:6: ${ignored}`, `${path}:8: ${ignored}`] });
  });
});

describe('tokens of the daemon', () => {
  const A = '0123456789abcdef';
  const B = 'abcdefghijklmnop+/=';

  test('an admin token, a read token, and a list', () => {
    expect(configuredTokens({})).toEqual([]);
    const env = {
      WORKSYNC_ADMIN_TOKEN: A,
      WORKSYNC_READ_TOKEN: B,
      WORKSYNC_TOKENS: 'read:acme,beta 1111111111111111; admin:acme  2222222222222222;read 3333333333333333;',
    };
    expect(configuredTokens(env)).toEqual([
      { secret: A, role: 'admin', workspaces: null },
      { secret: B, role: 'read', workspaces: null },
      { secret: '1111111111111111', role: 'read', workspaces: ['acme', 'beta'] },
      { secret: '2222222222222222', role: 'admin', workspaces: ['acme'] },
      { secret: '3333333333333333', role: 'read', workspaces: null },
    ]);
  });

  test('from files, with a line and a remark for each', () => {
    const folder = folderOfTest('tokens');
    const [list, read] = [join(folder, 'list'), join(folder, 'read')];
    writeFileSync(list, `# the team's dashboard\nread:acme ${A}\n\nadmin ${B}\n`, { mode: 0o600 });
    writeFileSync(read, '1111111111111111\n', { mode: 0o600 });
    expect(configuredTokens({ WORKSYNC_TOKENS_FILE: list, WORKSYNC_READ_TOKEN_FILE: read })).toEqual([
      { secret: '1111111111111111', role: 'read', workspaces: null },
      { secret: A, role: 'read', workspaces: ['acme'] },
      { secret: B, role: 'admin', workspaces: null },
    ]);
  });

  test.each([
    [{ WORKSYNC_ADMIN_TOKEN: 'a token of some length' }, 'WORKSYNC_ADMIN_TOKEN: a token consists of letters'],
    [{ WORKSYNC_READ_TOKEN: 'short' }, 'WORKSYNC_READ_TOKEN: a token has at least 16 characters'],
    [{ WORKSYNC_ADMIN_TOKEN: A, WORKSYNC_ADMIN_TOKEN_FILE: '/x' }, 'both WORKSYNC_ADMIN_TOKEN and'],
    [{ WORKSYNC_ADMIN_TOKEN: A, WORKSYNC_READ_TOKEN: A }, 'WORKSYNC_READ_TOKEN: the same token is set twice'],
    [{ WORKSYNC_TOKENS: `read ${A};write ${B}` }, 'WORKSYNC_TOKENS: entry 2: expected "read <token>"'],
  ])('a problem names its place, and no value: %j', (env, message) => {
    const error = refusal(() => configuredTokens(env));
    expect([error.code, error.message]).toEqual(['config_invalid', expect.stringContaining(message)]);
    expect(error.message).not.toContain(A);
    expect(error.message).not.toContain(B);
  });
});
