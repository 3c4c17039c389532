import { generateKeyPairSync } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { EXAMPLE_URL } from '../../src/admin/installation/init.ts';
import { startWorkspaceService } from '../support/fakes/workspace-service.ts';
import { commandLine, onTerminal } from '../support/harness/command-line.ts';
import { folderOfTest } from '../support/harness/folder.ts';

const URL_OF_OURS = 'https://ours.example.com/api/v1';
const EXAMPLES = readdirSync(join(import.meta.dirname, '../../config/examples')).map((file) => basename(file, '.yaml'));

const PRIVATE_KEY = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
}).privateKey;

let folder = '';

beforeEach(() => {
  folder = folderOfTest('init');
});
afterEach(() => {
  vi.unstubAllEnvs();
});

it.each(EXAMPLES)('%s: the draft is moved to the workspaces once it is complete', async (from) => {
  const again = ['init', '--name', 'ours', '--folder', folder, '--offline', '--json'];
  const example = readFileSync(join(import.meta.dirname, `../../config/examples/${from}.yaml`), 'utf8');
  const url = example.includes(EXAMPLE_URL) ? ['--url', URL_OF_OURS] : [];
  const { code, json, stderr } = await commandLine(...again, '--from', from, ...url);
  const draft = join(folder, 'config/ours.yaml');
  const live = join(folder, 'config/workspaces/ours.yaml');
  const envFile = join(folder, '.env');
  const [{ written, missing, isLive }] = json() as [{ written: string[]; missing: string[]; isLive: boolean }];
  // An example without variables needs no .env.
  expect(written.filter((path) => !existsSync(path))).toEqual([]);
  expect({ code, isLive }).toEqual(missing.length === 0 ? { code: 0, isLive: true } : { code: 3, isLive: false });
  if (!isLive) {
    expect(stderr).toContain(`Next: replace in ${draft} and .env: ${missing.join(', ')}. Then run`);
    expect(stderr).toContain(`init --name ours --folder ${folder}".`);
    expect(statSync(envFile).mode & 0o777).toBe(0o600);
    fillIn(envFile, draft, missing);
    const done = await commandLine(...again);
    expect(done.json()).toEqual([{ name: 'ours', written: [live], missing: [], findings: [], isLive: true }]);
    expect(done.stderr).toContain(
      `Next: start the daemon with "npm run -s worksync -- run --config ${folder}/config/workspaces".`,
    );
  }
  expect(existsSync(draft)).toBe(false);
  expect(await commandLine('check', '--offline', '--config', live)).toMatchObject({ code: 0, stderr: '' });
  const content = readFileSync(live, 'utf8');
  const schema = /^# yaml-language-server: \$schema=(.+)$/m.exec(content)?.[1] ?? '';
  expect(JSON.parse(readFileSync(join(live, '..', schema), 'utf8'))).toHaveProperty('$schema');
});

function fillIn(envFile: string, draft: string, missing: readonly string[]): void {
  const key = writeKey();
  const variables = readFileSync(envFile, 'utf8')
    .replace('GITHUB_PRIVATE_KEY=', `GITHUB_PRIVATE_KEY_FILE=${key}`)
    .replaceAll(/^(\w+_ID)=$/gm, '$1=12345')
    .replaceAll(/^(\w+)=$/gm, (line, name: string) => `${line}${keyFor(name)}`);
  writeFileSync(envFile, variables);
  const content = missing.reduce((text, each) => text.replaceAll(each, filled(each)), readFileSync(draft, 'utf8'));
  writeFileSync(draft, content);
}

function writeKey(): string {
  const path = join(folder, 'app.pem');
  writeFileSync(path, PRIVATE_KEY, { mode: 0o600 });
  return path;
}

function filled(placeholder: string): string {
  return placeholder
    .replaceAll('example.com', 'acme.test')
    .replaceAll('your-', 'acme-')
    .replace('YOURKEY', 'ENG')
    .replace(/^0{8}-/, '1e0f3a52-');
}

function keyFor(name: string): string {
  return name === 'BITBUCKET_API_TOKEN' ? 'ada@example.com:a-token-of-some-length' : `value-of-${name.toLowerCase()}`;
}

const TOP = join(import.meta.dirname, '../..');

function deployed(name: string): string {
  return readFileSync(join(folder, 'deploy', name), 'utf8');
}

async function initWith(from: string, templates: readonly string[], ...flags: readonly string[]) {
  const named = templates.flatMap((each) => ['--with', each]);
  return commandLine('init', '--folder', folder, '--json', '--from', from, '--name', 'corp', ...named, ...flags);
}

it('writes the files to deploy for the workspace, the vendor and the folder of the draft', async () => {
  const templates = ['kubernetes', 'kubernetes-replicas', 'compose', 'compose-replicas', 'systemd', 'gitlab-ci'];
  const { code, json } = await initWith(
    'gitlab',
    [...templates, 'compose', 'alerts'],
    '--set',
    'sync.example.com=s.test',
  );
  expect(code).toBe(3);
  const [{ written }] = json() as [{ written: string[] }];
  const files = written.slice(1, -1).map((path) => basename(path));
  const names = [...templates, 'alerts'].map((each) => (each === 'systemd' ? 'worksync.service' : `${each}.yaml`));
  expect(files).toEqual(names);
  expect(files.filter((file) => /GITHUB|BITBUCKET|acme|team|example\.com\/help/.test(deployed(file)))).toEqual([]);

  const draft = readFileSync(join(folder, 'config/corp.yaml'), 'utf8');
  for (const file of ['kubernetes.yaml', 'kubernetes-replicas.yaml']) {
    const [manifests = [], templated = []] = [deployed(file), template(file)].map((text) =>
      parseAllDocuments(text).map((each) => each.toJS()),
    );
    const manifest = (kind: string) => manifests.find((each) => each.kind === kind);
    expect(Object.keys(manifest('ConfigMap').data)).toEqual(['corp.yaml']);
    expect(parse(manifest('ConfigMap').data['corp.yaml'])).toEqual(parse(draft));
    const variables = ['WORKSYNC_API_KEY', 'GITLAB_TOKEN', 'GITLAB_WEBHOOK_SECRET'];
    const ofTemplate = templated.find((each) => each.kind === 'Deployment');
    const envOf = ({ spec }: ReturnType<typeof manifest>) => spec.template.spec.containers[0].env;
    const files = variables.map((each) => ({ name: `${each}_FILE`, value: `/secrets/${each}` }));
    expect(envOf(manifest('Deployment')).slice(-files.length)).toEqual(files);
    envOf(ofTemplate).splice(-files.length, files.length, ...files);
    expect(manifest('Deployment')).toEqual(ofTemplate);
  }
  for (const file of ['compose.yaml', 'compose-replicas.yaml']) {
    const service = parse(deployed(file)).services.worksync;
    const place = (path: string) => resolve(folder, 'deploy', path);
    expect(place(service.build)).toBe(TOP);
    expect(place(service.env_file[0].path)).toBe(join(folder, '.env'));
    expect(place(service.volumes[0].split(':')[0])).toBe(join(folder, 'config/workspaces'));
  }
  expect(parse(deployed('compose-replicas.yaml')).services.worksync.environment.WORKSYNC_ALLOWED_HOSTS).toBe('s.test');
});

function template(name: string): string {
  return readFileSync(join(TOP, 'config/deploy', name), 'utf8');
}

it('leaves a configured workspace alone without --force', async () => {
  const args = ['init', '--folder', folder, '--from', 'github-public', '--offline'];
  const withUrl = await commandLine(...args, '--url', 'https://other.test/api/v1');
  expect(withUrl.stderr).toContain('has no effect on the example github-public');
  expect(await commandLine(...args)).toMatchObject({ code: 0 });
  const live = join(folder, 'config/workspaces/team.yaml');
  const refused = await commandLine(...args);
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toContain(`already there: ${live}`);
  expect(await commandLine(...args, '--force', '--set', 'octokit/webhooks.js=acme/web')).toMatchObject({ code: 0 });
  expect(readFileSync(live, 'utf8')).toContain('- acme/web');
});

describe('on a terminal', () => {
  it('asks for another key while the workspace refuses it, three times at most', async () => {
    const { url, apiKey, close } = await startWorkspaceService();
    mkdirSync(join(folder, 'config'));
    const connection = 'desk: { connector: generic, system: desk, webhookSecrets: whsec_YS1zZWNyZXQtb2YtdGhlLXRlc3Q= }';
    const draft = `workspace:\n  url: ${url}\n  apiKey: \${WORKSYNC_API_KEY}\nconnections:\n  ${connection}\n`;
    writeFileSync(join(folder, 'config/ours.yaml'), draft);
    const args = ['init', '--name', 'ours', '--folder', folder];
    try {
      const refused = await onTerminal(['wsk_1', 'wsk_2', 'wsk_3', 'wsk_4'], ...args);
      expect(refused.code).toBe(1);
      expect(refused.stderr.match(/ {2}unauthorized: /g)).toHaveLength(3);
      const taken = await onTerminal(['wsk_5', apiKey], ...args);
      expect(taken).toMatchObject({ code: 0, stdout: expect.stringContaining('accepts the key') });
      expect(readFileSync(join(folder, '.env'), 'utf8')).toMatch(new RegExp(`^WORKSYNC_API_KEY=${apiKey}$`, 'm'));
    } finally {
      await close();
    }
  });
});
