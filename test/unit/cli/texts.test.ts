import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ShownPlan } from '../../../src/admin/changes/plan.ts';
import type { PullRequestTasks } from '../../../src/admin/tasks/pull-request-tasks.ts';
import { describePlan } from '../../../src/cli/changes/plan.ts';
import { askOwner } from '../../../src/cli/owner.ts';
import { main } from '../../../src/cli/program.ts';
import { reportError } from '../../../src/cli/report-error.ts';
import { configSource } from '../../../src/cli/session.ts';
import { print, say } from '../../../src/cli/setting.ts';
import { annotation, ciText, describeTasks, summaryOf } from '../../../src/cli/tasks/ci.ts';
import { safeOutput } from '../../../src/cli/words.ts';
import { describeRound } from '../../../src/cli/workspace/sweep.ts';
import { show } from '../../../src/cli/workspace-command.ts';
import { connectors } from '../../../src/connectors/registry.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { LARGE_CONFIG, loadConfig } from '../../../src/platform/config/load.ts';
import { OWN_COMMAND } from '../../../src/platform/lib/own-program.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';
import { daemonFile } from '../../../src/store/installation/daemon-file.ts';
import { html } from '../../../src/web/html.ts';
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

it('is read by people', () => {
  const plain = { ...answer, pullRequest: { ...answer.pullRequest!, title: 'Pay by card' } };
  expect(describeTasks({ ...plain, notLinked: [{ text: 'BUG-99', place: 'title', why: 'there is no task' }] })).toBe(
    [
      'acme/app#7 "Pay by card" is linked to 2 tasks',
      '  BUG-12  in_progress  Login <b>fails</b> | [now](x)',
      '  BUG-13                                              (the link waits to be sent)',
      'named, but not linked:',
      '  "BUG-99" (title): there is no task',
    ].join('\n'),
  );
  expect(describeTasks({ ...plain, tasks: [], notLinked: [] })).toBe('acme/app#7 "Pay by card" is linked to no task');
});

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

it('a summary shows texts as they are, and no more than some lines', () => {
  expect(summaryOf(answer)).toContain('Login &#60;b&#62;fails&#60;/b&#62; &#124; &#91;now&#93;&#40;x&#41;');
  const many = { ...answer, tasks: Array.from({ length: 50 }, () => answer.tasks[0]!) };
  expect(summaryOf(many).match(/BUG/g)).toHaveLength(20);
  expect(summaryOf(many)).toContain('and 30 more');
});

it('an annotation is one line', () => {
  expect(annotation('error', { message: 'a\r\n::b', hint: '100 % c' })).toBe(
    '::error title=worksync::a%0D%0A::b. 100 %25 c',
  );
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

  it('keeps the value of JSON', () => {
    const value = { title: HOSTILE, list: ['a::b', '####'], empty: {} };
    const line = safeOutput(JSON.stringify(value));
    expect(JSON.parse(line)).toEqual(value);
    expect(line).not.toMatch(/::|##/);
  });

  it('leaves texts of ours as they are', () => {
    const text = 'BUG-1\topen  12:30:00\n  # Title\n  https://example.com/#a::b';
    expect(safeOutput(text)).toBe(text);
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
    expect(writers).toEqual(['setting.ts']);
  });
});

const EMPTY: ShownPlan = {
  id: 'abc',
  writes: [],
  requests: 0,
  drainedAt: 0,
  entities: [],
  mirror: { state: 'here', message: 'here only' } as unknown as ShownPlan['mirror'],
  unread: [],
};

it('does not promise that nothing is written before everything was read', () => {
  expect(describePlan(EMPTY, 0)).toBe('plan abc: nothing would be written\n  pull requests: here only');
  expect(describePlan({ ...EMPTY, unread: ['the workspace', 'main'] }, 0).split('\n')).toEqual([
    'plan abc: nothing is known to be written yet',
    '  pull requests: here only',
    '  not read yet: the workspace, main; more writes may follow',
  ]);
});

it('names commands as they are typed here in texts of worksync, and leaves texts of other people as they are', () => {
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  const title = 'BUG-1  "worksync status" crashes';
  show({ text: title, json: [] }, {});
  print('See "worksync status".');
  const lines = written.mock.calls.map(([line]) => line);
  written.mockRestore();
  expect(lines).toEqual([`${title}\n`, `See "${OWN_COMMAND} status".\n`]);
  expect(html`${title}`.text).toBe('BUG-1  &quot;worksync status&quot; crashes');
});

/** The rules that hold for every command. */

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

  it('suggests an option for what is nearly one', async () => {
    const [option] = command.createHelp().visibleOptions(command);
    const misspelt = `${option?.long?.slice(0, -1)}q`;
    const required = command.options.filter(({ mandatory }) => mandatory);
    const given = required.flatMap(({ long, required: takesValue }) => [
      long as string,
      ...(takesValue ? ['github'] : []),
    ]);
    const { code, stdout, stderr } = await commandLine(...path, ...given, misspelt);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain(`unknown option '${misspelt}'\n(Did you mean `);
  });
});

const GROUPS = [...new Set(LEAVES.flatMap(({ path }) => path.map((_, depth) => path.slice(0, depth).join(' '))))];

it.each(GROUPS)('"%s" suggests a command for what is nearly one', async (group) => {
  const path = group === '' ? [] : group.split(' ');
  const [leaf] = LEAVES.filter((each) => each.path.join(' ').startsWith(group) && each.path.length > path.length);
  const known = leaf!.path[path.length] as string;
  const { code, stderr } = await commandLine(...path, `${known}x`);
  expect(code).toBe(2);
  expect(stderr).toMatch(new RegExp(`did you mean "?${known}`, 'i'));
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

it.each([200, 400, 422])(
  'reports an answer of the daemon with status %d that is not JSON as malformed',
  async (status) => {
    const asked = askOwner(await daemonAnswering(status), 'GET', '/status.json');
    await expect(asked).rejects.toMatchObject({ code: 'answer_malformed' });
  },
);

it('reports a workspace that the daemon does not have', async () => {
  const asked = askOwner(await daemonAnswering(404), 'POST', '/admin/workspaces/demo/questions/quota');
  await expect(asked).rejects.toMatchObject({ code: 'not_found', hint: expect.stringContaining('--config') });
});

const KIBIBYTE = 1_024;
/** Microseconds of this thread; to start the other one takes most of it. */
const LITTLE = 500_000;

function inputWith(text: string) {
  const path = join(folderOfTest('config-source'), 'own.yaml');
  writeFileSync(path, text);
  return { path, env: {}, connectors, apiOverrides };
}

it('a large configuration that is right is the same as read at once', async () => {
  const connection = '  main: { connector: github, repositories: [acme/web], webhookSecrets: a-secret-of-its-own }\n';
  const comment = `# ${'x'.repeat(2 * LARGE_CONFIG)}\n`;
  const input = inputWith(`${comment}connections:\n${connection}`);
  expect(await configSource(input, () => ({}), { secrets: [] }).load()).toEqual(loadConfig(input));
});

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
