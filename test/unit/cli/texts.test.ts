import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { PullRequestTasks } from '../../../src/admin/tasks/pull-request-tasks.ts';
import { print, say, show } from '../../../src/cli/command.ts';
import { askOwner } from '../../../src/cli/owner.ts';
import { main } from '../../../src/cli/program.ts';
import { reportError } from '../../../src/cli/report-error.ts';
import { configSource } from '../../../src/cli/session.ts';
import { ciText, describeTasks, summaryOf } from '../../../src/cli/tasks/ci.ts';
import { describeRound } from '../../../src/cli/workspace/sweep.ts';
import { connectors } from '../../../src/connectors/registry.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import { daemonFile } from '../../../src/store/installation/daemon-file.ts';
import { apiOverrides } from '../../../src/workspace-api/contract.ts';
import { allCommands, commandLine } from '../../support/harness/command-line.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { listenLocally } from '../../support/harness/listen.ts';

const HOSTILE =
  '::error::x ##vso[task.setvariable variable=y]z ##[group]a \u001b[0Ksection_start:1:b\n::stop-commands::c';

const answer: PullRequestTasks = {
  pullRequest: { name: 'acme/app#7', url: null, title: HOSTILE, connection: 'github' },
  tasks: [
    { key: 'BUG-12', title: 'Login <b>fails</b> | [now](x)', status: 'in_progress', state: 'linked' },
    { key: 'BUG-13', title: null, status: null, state: 'waiting' },
  ],
  notLinked: [{ text: HOSTILE, place: 'title', why: 'there is no task and no item of that name' }],
  expectedFrom: [],
  example: 'BUG-12',
};

it('commands no CI service, whoever wrote the texts', () => {
  for (const text of [describeTasks(answer), summaryOf(answer), summaryOf({ ...answer, tasks: [] }), ciText(HOSTILE)]) {
    expect(text).not.toMatch(/::|##/);
    expect(text).not.toContain('\u001b');
  }
  expect(describeTasks(answer).split('\n')).toHaveLength(5);
});

it.each(['###[add-mask]x', '####vso[x]', ':::error::x', '::::error::x'])('%s commands none either', (text) => {
  expect(ciText(text)).not.toMatch(/::|##/);
});

it('names the findings by people in a round, and those alone', () => {
  const found = { 'record-changed': 1, 'record-missing': 0, 'link-removed': 2, 'task-changed': 0, 'task-missing': 1 };
  const round = { tasks: 3, records: 1, found, repairs: { done: 1, waiting: 0, held: 0 } };
  expect(describeRound(round as never)).toBe(
    '3 tasks and 1 record compared; 1 record repaired; changed by people: 1 task missing, 2 links removed',
  );
});

describe('the output of commands', () => {
  const HOSTILE = '\u001b[31m##vso[task.setvariable variable=a]b ##[group]c \u009b0K\u202e ::set-output name=d::e';

  /** Returns the text that a command writes to both streams. */
  async function written(work: () => unknown): Promise<string> {
    let text = '';
    const take = (piece: unknown) => {
      text += String(piece);
      return true;
    };
    const spies = [process.stdout, process.stderr].map((stream) => vi.spyOn(stream, 'write').mockImplementation(take));
    try {
      await work();
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
    return text;
  }

  const MODES = {
    text: () => print(`title ${HOSTILE}`),
    'lines that begin like a command': () => print('::set-output name=a::b\n  ::stop-commands::c'),
    JSON: () => show({ text: '', json: [{ title: HOSTILE, other: '::add-mask::x' }] }, { json: true }),
    progress: () => say(HOSTILE),
    'an error': () => reportError(new SyncError('not_found', `no item ${HOSTILE}`), (text) => text),
    'an unknown command': () => main(['node', 'worksync', HOSTILE], '0', createScrubber([])),
    'an unknown option': () => main(['node', 'worksync', 'status', `--${HOSTILE}`], '0', createScrubber([])),
  };

  it.each(Object.entries(MODES))('%s commands neither a terminal nor a CI service', async (_mode, work) => {
    const text = await written(work);
    expect(text).not.toBe('');
    expect(text).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]|##(?:vso)?\[|^\s*::/mu);
  });

  it('all commands print through it', () => {
    const folder = join(import.meta.dirname, '../../../src/cli');
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
    const writers = files.filter((file) => {
      const source = readFileSync(join(folder, file), 'utf8');
      const calls = source.match(/process\.std(?:out|err)\.write\((?!.*safeOutput)[^)]*/g) ?? [];
      return calls.some((call) => !call.endsWith('write(clear'));
    });
    // `printAsIs`, whose callers say why.
    expect(writers).toEqual(['command.ts']);
  });
});

const LEAVES = await allCommands();

describe.each(LEAVES.map(({ path, command }) => [path.join(' '), { path, command }] as const))('%s', (name, leaf) => {
  const { path, command } = leaf;

  it('explains itself, with an example that begins as it does', async () => {
    const { code, stdout } = await commandLine(...path, '--help');
    expect(code).toBe(0);
    expect(command.description()).not.toBe('');
    const examples = [...stdout.matchAll(/worksync(?: --)? ([a-z][^\n]*)/g)].map((match) => match[1] as string);
    const begins = path.at(-1) === 'list' ? path.slice(0, -1).join(' ') : name;
    expect(examples.filter((example) => example.startsWith(begins))).not.toEqual([]);
  });
});

/** The data folder of a daemon that answers everything with this status. */
async function daemonAnswering(status: number): Promise<string> {
  const server = createServer((_, response) => response.writeHead(status).end('<html>a proxy</html>'));
  const address = await listenLocally(server);
  onTestFinished(() => void server.close());
  const data = folderOfTest('owner');
  writeFileSync(daemonFile(data), JSON.stringify({ address, token: 'token' }));
  return data;
}

it('reports an answer of the daemon with status 200 that is not JSON as malformed', async () => {
  const asked = askOwner(await daemonAnswering(200), 'GET', '/status.json');
  await expect(asked).rejects.toMatchObject({ code: 'answer_malformed' });
});

const KIBIBYTE = 1_024;
/** Microseconds of this thread; to start the other one takes most of it. */
const LITTLE = 500_000;

function inputWith(text: string) {
  const path = join(folderOfTest('config-source'), 'own.yaml');
  writeFileSync(path, text);
  return { path, env: {}, connectors, apiOverrides };
}

it('a malformed configuration of 512 KiB occupies another thread, and fails as it would at once', async () => {
  let keys = '';
  for (let index = 0; keys.length < 512 * KIBIBYTE; index++) keys += `key${index}: 1\n`;
  const input = inputWith(keys);
  const before = process.threadCpuUsage();
  const failure = await Promise.resolve(configSource(input, () => ({}), { secrets: [] }).load()).catch(
    (error: unknown) => error,
  );
  const { user, system } = process.threadCpuUsage(before);
  expect(failure).toMatchObject({ code: 'config_invalid', message: expect.stringContaining('unknown key "key0"') });
  expect((failure as Error).message.split('\n')).toHaveLength(100);
  expect(user + system).toBeLessThan(LITTLE);
});

it('reads `.env` anew with each load, and its stamp changes with the file', async () => {
  const folder = folderOfTest('config-source');
  const envFile = join(folder, '.env');
  const input = inputWith(
    `connections:\n  main: { connector: github, repositories: [acme/web], webhookSecrets: "\${TOKEN}", poll: off }\n`,
  );
  const source = configSource(input, (files) => parseEnv(files.read(envFile, 100).bytes.toString()), {
    envFile,
    secrets: [],
  });
  const before = await source.stamp();
  await expect(source.load()).rejects.toMatchObject({ code: 'ENOENT' });
  writeFileSync(envFile, 'TOKEN=a-token-of-its-own\n');
  expect(await source.stamp()).not.toBe(before);
  expect((await source.load()).secrets).toEqual(['a-token-of-its-own']);
});
