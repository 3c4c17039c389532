import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { configuredTokens } from '../../../../src/platform/config/tokens.ts';
import { folderOfTest } from '../../../support/harness/folder.ts';
import { refusal } from '../../../support/rows/config-files.ts';

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
  [{ WORKSYNC_TOKENS: `read: ${A}` }, 'WORKSYNC_TOKENS: entry 1: expected'],
  [{ WORKSYNC_TOKENS: `read:Acme ${A}` }, 'WORKSYNC_TOKENS: entry 1: expected'],
  [{ WORKSYNC_TOKENS: `read ${A} ${B}` }, 'WORKSYNC_TOKENS: entry 1: expected'],
  [{ WORKSYNC_TOKENS: 'read' }, 'WORKSYNC_TOKENS: entry 1: a token has at least 16'],
])('a problem names its place, and no value: %j', (env, message) => {
  const error = refusal(() => configuredTokens(env));
  expect([error.code, error.message]).toEqual(['config_invalid', expect.stringContaining(message)]);
  expect(error.message).not.toContain(A);
  expect(error.message).not.toContain(B);
});
