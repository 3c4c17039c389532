import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { DataFolder } from '../../src/store/installation/installation.ts';
import { PACE } from '../support/fakes/paced-clock.ts';
import { replaceClock } from '../support/fakes/replace-clock.ts';
import type { Leaf } from '../support/harness/command-line.ts';
import { folderOfFile } from '../support/harness/folder.ts';
import { listenLocally } from '../support/harness/listen.ts';

/** No command waits silently, or without end, for a daemon that takes connections and says nothing. */

replaceClock(new URL('../support/fakes/paced-clock.ts', import.meta.url).href);
// Loaded after it, so that they have the other clock.
const { acquireDataFolder } = await import('../../src/store/installation/installation.ts');
const { allCommands, commandLine } = await import('../support/harness/command-line.ts');

const ASK_WORKSPACE = ['api listAgents', 'keys list', 'keys create', 'keys revoke', 'keys rotate'];
/** They ask nobody; `run`, `restore` and `store copy` need the data folder itself. */
const ASK_NOBODY = [
  ...[
    'run',
    'init workspace',
    'init github-app',
    'demo',
    'backup',
    'restore',
    'store copy',
    'config show',
    'connectors',
    'translate',
    'completion',
    'generate',
  ],
  ...['workspace serve', 'workspace token', 'workspace connect-provider'],
];

const folder = folderOfFile('mute');
const data = join(folder, 'data');
const config = join(folder, 'team.yaml');
const file = join(folder, 'file.png');

/** Arguments that a command needs before it asks; those with a name are told by its own help. */
const NEEDS: Readonly<Record<string, readonly string[]>> = {
  wait: ['--timeout', '30s'],
  logout: ['--all'],
  forget: ['x', '--yes'],
  'changes drop': ['x', '--yes'],
  'quarantine retry': ['--all'],
  'quarantine dismiss': ['--all'],
  'deliveries replay': ['x'],
  trigger: ['github', 'opened'],
  'docs put': ['x', '--title', 'y', '--content', 'y'],
  'docs patch': ['x', '--replace', 'a', '--with', 'b'],
  'files upload': [file],
  ci: ['--pull-request', 'acme/app#7', '--provider', 'github'],
};

let announced: DataFolder;
let answersLife = false;
const server = createServer((request: IncomingMessage, response: ServerResponse) => {
  if (answersLife && request.url === '/livez') response.end('ok');
});

beforeAll(async () => {
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) =>
    // The sign of life is not what is waited for in vain then.
    timeout(answersLife && ms <= 5_000 ? ms : Math.ceil(ms / PACE)),
  );
  const connection = '{ connector: github, repositories: [acme/app], webhookSecrets: a-secret-of-sixteen, poll: off }';
  const address = await listenLocally(server);
  const workspace = `workspace: { url: "${address}/api/v1", apiKey: a-key-of-some-length }`;
  writeFileSync(config, `${workspace}\nconnections:\n  github: ${connection}\n`);
  writeFileSync(file, 'x');
  announced = acquireDataFolder(data);
  announced.announce({ address, token: 'token' });
  // A CI job has these variables in place of the folder.
  vi.stubEnv('WORKSYNC_URL', address);
  vi.stubEnv('WORKSYNC_TOKEN', 'wsg_a-token-of-some-length');
});
afterAll(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  announced.release();
  server.closeAllConnections();
  server.close();
});

/** All operations of `api` take one of two ways: an operation of each is enough. */
const isOneOf = ([group, operation = '']: readonly string[]) =>
  group !== 'api' || ['getTask', 'listAgents'].includes(operation);
const ASKING = (await allCommands()).filter(({ path }) => isOneOf(path) && !ASK_NOBODY.includes(path.join(' ')));
const NAMED = ASKING.map(({ path, command }) => [path.join(' '), { path, command }] as const);

/** Arguments that commander requires, and `--config` and `--data` where the command takes them. */
function argumentsOf(name: string, { path, command }: Leaf): string[] {
  const given = command.registeredArguments.filter(({ required }) => required).map(() => 'x');
  const mandatory = command.options.filter((option) => option.mandatory);
  const sample = (long: string | undefined) => (long === '--provider' ? 'github' : 'x');
  const flags = mandatory.flatMap(({ long, required }) => [long as string, ...(required ? [sample(long)] : [])]);
  const takes = (flag: string) => command.options.some(({ long }) => long === flag);
  const folders = [...(takes('--config') ? ['--config', config] : []), ...(takes('--data') ? ['--data', data] : [])];
  return [...path, ...(NEEDS[name] ?? [...given, ...flags]), ...folders];
}

describe.each(NAMED.filter(([name]) => !ASK_WORKSPACE.includes(name)))('%s', (name, leaf) => {
  const args = argumentsOf(name, leaf);

  it('says that it waits, gives up, and ends with 75', async () => {
    answersLife = false;
    const { code, stdout, stderr } = await commandLine(...args);
    // A folder that somebody else holds is one of the things that `check` finds.
    const told = name === 'check' ? stdout : stderr;
    expect(`${code} ${name === 'check' ? '' : stdout}`).toBe('75 ');
    expect(stderr).toMatch(/waiting for the daemon/);
    expect(told).toMatch(/the daemon at \S+ (?:did|does) not answer|is in use by another worksync process/);
  });

  it('does so where the daemon still shows a sign of life', async () => {
    answersLife = true;
    const { code, stdout, stderr } = await commandLine(...args);
    if (name === 'healthcheck') return expect(code).toBe(0);
    expect(`${code} ${stdout} ${stderr}`).toMatch(/^75 {2}/);
    expect(stderr).toMatch(/waiting for /);
    expect(stderr).toMatch(/the daemon at \S+ (?:did|does) not answer/);
  });
});

it.each(NAMED.filter(([name]) => ASK_WORKSPACE.includes(name)))(
  '%s waits for the workspace no longer than that',
  async (name, leaf) => {
    vi.stubEnv('WORKSYNC_OAUTH_TOKEN', 'a-token-of-some-length');
    const { code, stdout, stderr } = await commandLine(...argumentsOf(name, leaf));
    expect(`${code} ${stdout}`).toBe('1 ');
    expect(stderr).toMatch(/waiting for the workspace, for at most/);
  },
);
