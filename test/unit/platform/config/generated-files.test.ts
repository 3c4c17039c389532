import { generateKeyPairSync } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { options, shortestPoll } from '../../../../src/connectors/github/options.ts';
import { connectors } from '../../../../src/connectors/registry.ts';
import { CODES } from '../../../../src/model/errors.ts';
import { CONFIG_FOLDER } from '../../../../src/platform/config/config-files.ts';
import { DAEMON_OPTIONS } from '../../../../src/platform/config/daemon-options.ts';
import {
  generatedFiles,
  generateReference,
  generateSchema,
  type JsonSchema,
  schemaOf,
} from '../../../../src/platform/config/generated-files.ts';
import { loadConfig } from '../../../../src/platform/config/load.ts';
import { type ConnectorOptions, connectionKeys, workspaceFile } from '../../../../src/platform/config/schema.ts';
import { apiOverrides as workspaceOverrides } from '../../../../src/workspace-api/contract.ts';
import { apiOverrides, folderOf, forge, tracker } from '../../../support/rows/config-files.ts';

const PRIVATE_KEY = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString();

const github: ConnectorOptions = { id: 'github', title: 'GitHub', options, shortestPoll };

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

  test('the demo asks nobody and uses the embedded service', () => {
    const [demo] = loadConfig({
      path: join(CONFIG_FOLDER, 'default.yaml'),
      env: envOf('default.yaml'),
      connectors: [github],
      apiOverrides: workspaceOverrides,
    }).workspaces;
    expect(demo).toMatchObject({ name: 'demo', connections: [{ name: 'github-demo', poll: 'off' }] });
    expect(demo?.workspace.url).toBeUndefined();
  });
});

describe('the JSON Schema', () => {
  const validate = validator([tracker, forge], apiOverrides);
  const connection = (keys: object) => ({ connections: { main: keys } });

  test.each<[string, object]>([
    ['the least', connection({ connector: 'tracker' })],
    ['every option', connection({ connector: 'forge', projects: ['a'], login: { kind: 'app', id: 1 }, retries: 2 })],
    ['variables', connection({ connector: 'forge', projects: [`\${P}`], retries: `\${R}`, webhookSecrets: `\${S}` })],
    ['common keys', { ...connection({ connector: 'tracker', poll: 'off' }), $schema: 'x', quota: { window: '1h' } }],
  ])('accepts %s', (_what, data) => {
    expect(validate(data) || validate.errors).toBe(true);
  });

  test.each<[string, object]>([
    ['no connections', {}],
    ['an unknown key', { ...connection({ connector: 'tracker' }), nmae: 'x' }],
    ['an unknown key inside', { ...connection({ connector: 'tracker' }), quota: { request: 1 } }],
    ['an unknown connector', connection({ connector: 'x' })],
    ["another connector's option", connection({ connector: 'tracker', projects: ['a'] })],
    ['a missing option', connection({ connector: 'forge' })],
    ['a wrong type', connection({ connector: 'forge', projects: ['a'], retries: 'two' })],
    ['a wrong duration', { ...connection({ connector: 'tracker' }), quota: { window: '1 hour' } }],
    ['a short secret', connection({ connector: 'tracker', webhookSecrets: ['short'] })],
    ['a wrong name', { connections: { Main: { connector: 'tracker' } } }],
  ])('refuses %s', (_what, data) => {
    expect(validate(data)).toBe(false);
  });

  test('a connector whose options are not strict is a fault', () => {
    const loose = { id: 'loose', title: 'Loose', options: z.object({}) };
    expect(() => generateSchema([{ ...loose, options: z.looseObject({}) }], apiOverrides)).toThrow(/strict object/);
    expect(() => generateSchema([{ ...loose, options: z.string() }], apiOverrides)).toThrow(/strict object/);
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

  test('describes every key: type, default, meaning', () => {
    expect(page).toContain('| `quota.window` | duration | `15m` | Length of the long window. |');
    expect(page).toContain('| `projects` | list of text | required | What is read. |');
    expect(page).toContain('| `retries` | whole number, from 0 | `1` | Tries. |');
    const own = unpadded(generateReference([github], workspaceOverrides));
    const rows = own.match(/^\| `[a-z][\w.<>[\]]*` \|.*$/gm) ?? [];
    expect(rows.length).toBeGreaterThan(Object.keys(CODES).length + 20);
    expect(rows.filter((row) => row.endsWith('| |') && !row.includes('workspace.api.'))).toEqual([]);
  });

  /** Returns the values of all enumerations with the path of the key that takes them; keys of mappings are no values. */
  const enumerated = (node: unknown, path = ''): [path: string, value: string][] => {
    if (typeof node !== 'object' || node === null) return [];
    const { properties = {}, items, additionalProperties, anyOf = [], oneOf = [], ...own } = node as JsonSchema;
    const values = [own.enum ?? [], own.const ?? []].flat().map(String);
    return [
      ...values.map((value): [string, string] => [path, value]),
      ...Object.entries(properties).flatMap(([key, inner]) => enumerated(inner, `${path}${path && '.'}${key}`)),
      ...enumerated(items, `${path}[]`),
      ...enumerated(additionalProperties, `${path}.<name>`),
      ...[...anyOf, ...oneOf].flatMap((inner) => enumerated(inner, path)),
    ];
  };

  test('lists every value of every enumeration beside its key', () => {
    const rows = unpadded(generateReference(connectors, workspaceOverrides)).split('\n');
    const schemas = [workspaceFile(workspaceOverrides), connectionKeys, ...connectors.map((each) => each.options)];
    const all = schemas.map(schemaOf).flatMap((schema) => enumerated(schema));
    expect(all).toContainEqual(['rules.workflow.rules[].when.pullRequest[]', 'queued']);
    const isListed = ([path, value]: [string, string]) =>
      rows.some(
        (row) => row.startsWith(`| \`${path.replace(/(\[\]|\.<name>)+$/, '')}\` |`) && row.includes(`\`${value}\``),
      );
    expect(all.filter((each) => !isListed(each))).toEqual([]);
  });
});

test('the same connectors in another order yield the same bytes', () => {
  expect(generatedFiles([forge, tracker], apiOverrides)).toEqual(generatedFiles([tracker, forge], apiOverrides));
});
