import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WorkItem } from '../../src/model/item.ts';
import { readFields } from '../../src/store/items/items.ts';
import { createWorld, type World } from '../support/harness/daemon.ts';
import { startProgram } from '../support/harness/processes.ts';

/** Where the package of Debian puts it. */
const HOME = '/usr/share/redmine';
const APT = '/usr/bin/apt-get';
const PACKAGES = ['redmine', 'redmine-sqlite', 'puma'];

/** Why there can be no Redmine on this machine; undefined where there can. */
function noRedmine(): string | undefined {
  if (existsSync(HOME)) return undefined;
  if (!existsSync(APT)) return 'it is not installed, and there is no apt-get';
  return process.getuid?.() === 0 ? undefined : 'it is not installed, and only root may install it';
}

/** Enables the REST service, and tells the administrator's key. */
const PREPARE = `
Setting.rest_api_enabled = '1'
admin = User.find_by_login('admin')
admin.update_columns(must_change_passwd: false)
puts "the key is #{admin.api_key}"
`;

/**
 * Starts a Redmine on loopback over a database of its own in this folder, and installs it first where it is not there. What
 * the package itself has set up is left alone.
 */
async function startRedmine(folder: string) {
  if (!existsSync(HOME)) {
    const quietly = { DEBIAN_FRONTEND: 'noninteractive' };
    await run(APT, ['update'], quietly, '/');
    await run(APT, ['install', '--yes', '--no-install-recommends', ...PACKAGES], quietly, '/');
  }
  const env = {
    DATABASE_URL: `sqlite3:${join(folder, 'redmine.sqlite3')}`,
    RAILS_ENV: 'production',
    RAILS_LOG_TO_STDOUT: '1',
    REDMINE_LANG: 'en',
  };
  const prepare = join(folder, 'prepare.rb');
  writeFileSync(prepare, PREPARE);
  await run('bin/rake', ['db:migrate'], env);
  await run('bin/rake', ['redmine:load_default_data'], env);
  const apiKey = /the key is (\w+)/.exec(await run('bin/rails', ['runner', prepare], env))?.[1];
  if (apiKey === undefined) throw new Error('the administrator of this Redmine has no key');
  const args = ['-e', 'production', '-b', 'tcp://127.0.0.1:0', '-t', '1:4', '--dir', HOME, join(HOME, 'config.ru')];
  const server = startProgram('puma', args, { env, cwd: folder });
  const said = await server.says('Use Ctrl-C to stop');
  const url = /Listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(said)?.[1];
  if (url === undefined) throw new Error(`puma listens nowhere:\n${said}`);
  return { url, apiKey, stop: () => server.end() };
}

/** To its end; what it said. */
async function run(program: string, args: readonly string[], env: Record<string, string>, cwd = HOME): Promise<string> {
  const { code, stdout, stderr } = await startProgram(program, args, { env, cwd }).ended;
  if (code === 0) return stdout;
  throw new Error(`${program} ${args.join(' ')} ended with ${code}\n${(stdout + stderr).slice(-4_000)}`);
}

/** A whole daemon beside a real Redmine: 250 issues on three pages, from their making to their end. */

const ISSUES = 250;
const HOUR = 3_600_000;
/** As the default data of Redmine has them. */
const STATUS = { inProgress: 2, closed: 5 };

const missing = noRedmine();
const scratch = mkdtempSync(join(tmpdir(), 'worksync-redmine-'));
let redmine: Awaited<ReturnType<typeof startRedmine>> | undefined;
let world: World | undefined;
/** Numbers of the issues that are followed, in the order they were made in. */
const numbers: number[] = [];

afterAll(async () => {
  await world?.close();
  await redmine?.stop();
  rmSync(scratch, { recursive: true, force: true });
});

function here<Thing>(thing: Thing | undefined): Thing {
  if (thing === undefined) throw new Error('it was not started');
  return thing;
}

/** As a person with a browser would. */
async function ask(method: string, path: string, body?: object): Promise<Record<string, { id: number }>> {
  const { url, apiKey } = here(redmine);
  const headers = { 'content-type': 'application/json', 'x-redmine-api-key': apiKey };
  const answer = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text.trim() === '' ? {} : (JSON.parse(text) as Record<string, { id: number }>);
}

async function make(project: string, subject: string, more: object = {}): Promise<number> {
  const description = `h3. ${subject}\n\nA *bold* word and @code@.`;
  const { issue } = await ask('POST', '/issues.json', {
    issue: { project_id: project, subject, description, ...more },
  });
  return here(issue).id;
}

const change = (number: number, issue: object) => ask('PUT', `/issues/${number}.json`, { issue });

async function items(): Promise<readonly WorkItem[]> {
  const rows = await here(world).partition().store.query.selectFrom('items').selectAll().execute();
  return rows.map((row) => readFields(row).item as WorkItem);
}

const count = async (wanted: (item: WorkItem) => boolean) => (await items()).filter(wanted).length;
const tasks = async () => (await here(world).people.listTasks({ query: { all: true } }, {})).body.tasks;

describe.skipIf(missing !== undefined)(`a real Redmine${missing === undefined ? '' : ` (${missing})`}`, () => {
  beforeAll(async () => {
    redmine = await startRedmine(scratch);
    await ask('POST', '/projects.json', { project: { name: 'Website', identifier: 'website', is_public: false } });
    const { project } = await ask('GET', '/projects/website.json');
    await ask('POST', '/projects.json', { project: { name: 'Below', identifier: 'below', parent_id: project?.id } });
    for (let at = 1; at <= ISSUES; at++) numbers.push(await make('website', `Issue ${at}`));
    await make('below', 'Of a project that is not followed');
    await make('website', 'Private', { is_private: true });
    world = await createWorld({
      startAt: Date.now(),
      quota: { requests: 100_000, burst: 50_000 },
      config: {
        connections: {
          main: {
            ...{ connector: 'redmine', url: redmine.url, apiKey: redmine.apiKey, projects: ['website'] },
            ...{ poll: '5m', sweep: '3h', writeBack: { comment: true } },
          },
        },
        rules: { triage: [{ create: 'bug', since: '2000-01-01' }] },
        guard: { creations: 'off' },
      },
    });
  });

  it('issues beyond the first page arrive, each becomes one task, and those of others and private ones none', async () => {
    await here(world).until(async () => (await items()).length >= ISSUES, HOUR);
    await here(world).settled(HOUR);
    const found = await items();
    expect(found.map(({ identifier }) => identifier).toSorted()).toEqual(numbers.map((each) => `#${each}`).toSorted());
    expect(found.find(({ identifier }) => identifier === `#${numbers[0]}`)).toMatchObject({
      containerName: 'Website',
      title: 'Issue 1',
      description: '### Issue 1\n\nA **bold** word and `code`.',
      state: 'open',
      rawState: 'New',
      type: 'Bug',
      priority: 'Normal',
      assignees: [],
    });
    const titles = (await tasks()).map(({ title }) => title);
    expect(titles.toSorted()).toEqual(numbers.map((_, at) => `Issue ${at + 1}`).toSorted());
  });

  it('edits and closings arrive, of more than a page within a few seconds', async () => {
    const [edited, moved, closed] = [numbers.slice(0, 20), numbers.slice(20, 40), numbers.slice(40, 170)];
    for (const number of edited) await change(number, { subject: `Edited ${number}` });
    for (const number of moved) await change(number, { status_id: STATUS.inProgress, assigned_to_id: '' });
    for (const number of closed) await change(number, { status_id: STATUS.closed });
    await here(world).until(async () => (await count(({ state }) => state === 'done')) === closed.length, HOUR);
    await here(world).settled(HOUR);
    expect(await count(({ title = '' }) => title.startsWith('Edited'))).toBe(edited.length);
    expect(await count(({ state }) => state === 'in_progress')).toBe(moved.length);
    expect(await count(({ state }) => state === 'open')).toBe(ISSUES - moved.length - closed.length);
    expect(await tasks()).toHaveLength(ISSUES);
  });

  it('each issue has one note that names its task', async () => {
    for (const number of [numbers[0], numbers.at(-1)]) {
      const { issue } = await ask('GET', `/issues/${number}.json?include=journals`);
      const { journals } = issue as unknown as { journals: { notes: string }[] };
      expect(journals.filter(({ notes }) => notes.includes('worksync'))).toHaveLength(1);
    }
  });

  it('deletions are found by the sweep, open and closed, and nothing else is called gone', async () => {
    const deleted = numbers.filter((_, at) => at % 2 === 0);
    for (const number of deleted) await ask('DELETE', `/issues/${number}.json`);
    await here(world).until(async () => (await count(({ gone }) => gone === true)) >= deleted.length, 8 * HOUR);
    await here(world).settled(HOUR);
    const gone = (await items()).filter((item) => item.gone).map(({ identifier }) => identifier);
    expect(gone.toSorted()).toEqual(deleted.map((number) => `#${number}`).toSorted());
    expect(await tasks()).toHaveLength(ISSUES);
  });
});
