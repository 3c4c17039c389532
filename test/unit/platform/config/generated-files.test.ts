import { generateKeyPairSync } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { z } from 'zod';
import { connectors } from '../../../../src/connectors/registry.ts';
import { CODES } from '../../../../src/model/errors.ts';
import { CONFIG_FOLDER } from '../../../../src/platform/config/config-files.ts';
import { DAEMON_OPTIONS } from '../../../../src/platform/config/daemon-options.ts';
import { generateReference, generateSchema } from '../../../../src/platform/config/generated-files.ts';
import { loadConfig } from '../../../../src/platform/config/load.ts';
import type { ConnectorOptions } from '../../../../src/platform/config/schema.ts';
import { apiOverrides as workspaceOverrides } from '../../../../src/workspace-api/contract.ts';
import { apiOverrides, folderOf, forge, tracker } from '../../../support/rows/config-files.ts';

const PRIVATE_KEY = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString();

const EXAMPLES = [
  'default.yaml',
  ...readdirSync(join(CONFIG_FOLDER, 'examples')).map((file) => join('examples', file)),
];

/** Secrets have a least length, and one vendor gives them a form. */
const ENV: Readonly<Record<string, string>> = {
  DESK_WEBHOOK_SECRET: 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=',
  GITHUB_APP_ID: '12345',
  GITHUB_INSTALLATION_ID: '67890',
};

/** A value for every variable that an example names. */
function envOf(file: string): Readonly<Record<string, string>> {
  const named = [...readFileSync(join(CONFIG_FOLDER, file), 'utf8').matchAll(/\$\{(\w+)\}/g)].map(
    ([, name = '']) => name,
  );
  const others = named.filter((name) => name !== 'GITHUB_PRIVATE_KEY');
  return { ...Object.fromEntries(others.map((name) => [name, 'a-secret-of-some-length'])), ...ENV };
}

function validator(connectors: readonly ConnectorOptions[], overrides: z.ZodType) {
  return new Ajv2020({ allErrors: true, strict: true, allowUnionTypes: true }).compile(
    generateSchema(connectors, overrides) as object,
  );
}

describe('the files that teach', () => {
  const validate = validator(connectors, workspaceOverrides);

  test.each(EXAMPLES)('%s loads without a warning', (file) => {
    const key = join(folderOf({ key: PRIVATE_KEY }), 'key');
    const { workspaces } = loadConfig({
      path: join(CONFIG_FOLDER, file),
      env: { ...envOf(file), GITHUB_PRIVATE_KEY_FILE: key },
      connectors,
      apiOverrides: workspaceOverrides,
    });
    expect(workspaces).toHaveLength(1);
    expect(workspaces[0]?.connections).toHaveLength(1);
  });

  test.each(EXAMPLES)('%s fits the schema as it is written, and names it', (file) => {
    const text = readFileSync(join(CONFIG_FOLDER, file), 'utf8');
    expect(validate(parse(text)) || validate.errors).toBe(true);
    const named = /^# yaml-language-server: \$schema=(\S+)/.exec(text)?.[1] ?? '';
    expect(join(CONFIG_FOLDER, file, '..', named)).toBe(join(CONFIG_FOLDER, 'schema.json'));
  });
});

describe('the JSON Schema', () => {
  const validate = validator([tracker, forge], apiOverrides);
  const connection = (keys: object) => ({ connections: { main: keys } });

  test.each<[string, object]>([
    ['the least', connection({ connector: 'tracker' })],
    ['variables', connection({ connector: 'forge', projects: [`\${P}`], retries: `\${R}`, webhookSecrets: `\${S}` })],
  ])('accepts %s', (_what, data) => {
    expect(validate(data) || validate.errors).toBe(true);
  });

  test.each<[string, object]>([
    ['no connections', {}],
    ['an unknown key', { ...connection({ connector: 'tracker' }), nmae: 'x' }],
    ['an unknown connector', connection({ connector: 'x' })],
    ["another connector's option", connection({ connector: 'tracker', projects: ['a'] })],
    ['a missing option', connection({ connector: 'forge' })],
    ['a wrong name', { connections: { Main: { connector: 'tracker' } } }],
  ])('refuses %s', (_what, data) => {
    expect(validate(data)).toBe(false);
  });
});

describe('the reference page', () => {
  const unpadded = (text: string) => text.replace(/ +\|/g, ' |');
  const page = unpadded(generateReference([tracker, forge], apiOverrides));

  test('names every option of the daemon and every error code with verdict and exit code', () => {
    for (const { flag, env } of DAEMON_OPTIONS) expect(page).toContain(`| \`${flag}\` | \`${env}\` |`);
    for (const [code, entry] of Object.entries(CODES)) {
      const exit = 'exit' in entry ? entry.exit : 1;
      expect(page).toContain(`| \`${code}\` | \`${entry.verdict}\` | ${exit} | ${entry.hint} |`);
    }
  });
});
