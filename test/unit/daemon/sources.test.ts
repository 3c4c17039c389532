import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { connectors } from '../../../src/connectors/registry.ts';
import { rulesOf } from '../../../src/daemon/sources.ts';
import { readConfigText } from '../../../src/platform/config/load.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';

const CODE = {
  connector: 'github',
  token: 'a-token',
  webhookSecrets: 'a secret for tests only',
  repositories: ['acme/app'],
};
const CONFIG = {
  workspace: { url: 'https://app.example.com', apiKey: 'a-key' },
  users: { github: { ann: 'u1' } },
  connections: { code: CODE },
};

function digestOf(changed: object): string | undefined {
  const config = readConfigText(stringify({ ...CONFIG, ...changed }), { connectors, apiOverrides }, 'test.yaml');
  return rulesOf(config, 'https://app.example.com', connectors).digest;
}

const withCode = (changed: object) => ({ connections: { code: { ...CODE, ...changed } } });

test.each<[what: string, changed: object]>([
  ['a user', { users: {} }],
  ['a field of new tasks', { triage: { send: ['labels'] } }],
  ['the setting for documents', { rules: { documents: 'attach' } }],
  ['the name of a connection', { connections: { other: CODE } }],
  ['the mirror', withCode({ mirror: 'off' })],
  ['comments', withCode({ writeBack: { comment: true } })],
  ['commit statuses', withCode({ writeBack: { status: 'require' } })],
  ['closing', withCode({ writeBack: { close: true } })],
])('re-evaluates all changes after %s changed', (_what, changed) => {
  expect(digestOf({})).toBe(digestOf({}));
  expect(digestOf(changed)).not.toBe(digestOf({}));
});
