import { sql } from 'kysely';
import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import {
  judgeArrivals,
  judgeClock,
  judgeDatabase,
  judgeDisk,
  judgeOthers,
  judgeQuota,
  judgeVersion,
} from '../../../src/admin/status/check-facts.ts';
import { judgeServer } from '../../../src/admin/status/check-server.ts';
import { triageFindings, workflowFindings } from '../../../src/admin/workspace/check-rules.ts';
import { checkWorkspace } from '../../../src/admin/workspace/check-workspace.ts';
import { exitCodeOf } from '../../../src/cli/status/check.ts';
import { describeBuild } from '../../../src/model/build.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { DatabaseFault } from '../../../src/platform/database/database-fault.ts';
import type { ServerFacts } from '../../../src/platform/database/database-types.ts';
import { systemRandom } from '../../../src/platform/lib/clock.ts';
import { appendDeliveries } from '../../../src/store/deliveries/append-deliveries.ts';
import { findWorkspace, forgetWorkspace } from '../../../src/store/installation/deletions.ts';
import { openInstallationFile } from '../../../src/store/installation/installation.ts';
import { readCounts } from '../../../src/store/status/counts.ts';
import { saveRows } from '../../../src/store/unit-of-work/unit-of-work.ts';
import { configureLinks } from '../../../src/store/workspace/server-capabilities.ts';
import { openTestStore } from '../../support/harness/intake.ts';
import { ON_POSTGRES } from '../../support/postgres/store-place.ts';
import { loadText } from '../../support/rows/config-files.ts';

const MINUTE = 60_000;
const MIB = 1024 * 1024;
const NOW = Date.UTC(2026, 10, 20, 12);

interface Found {
  readonly level: string;
  readonly message: string;
  readonly hint?: string;
}

/** Expects a hint in each finding that is not ok. Returns level and message. */
function told(found: Found): string {
  expect(found.hint === undefined).toBe(found.level === 'ok');
  return `${found.level}: ${found.message}`;
}

const clockOff = (ms: number) => judgeClock([{ server: 'a', ahead: ms }])[0] as Found;
const disk = (free: number, database: number) =>
  judgeDisk({ folder: '/data', free: free * MIB, database: database * MIB });
const database = (fault?: DatabaseFault, keptLog?: number) =>
  judgeDatabase({ file: '/data/a.db', size: 2_000_000, fault, keptLog });
const window = (length: number, cap: number | null, used: number) => ({
  ...{ window: length, cap, used, usedByBackground: 0, usedByBackfill: 0, backgroundLimit: null, backfillLimit: null },
});
type Pause = { until: number; code: 'unauthorized'; reason: string } | null;
function quota(used: number, burst: number, paused: Pause = null): Found {
  const windows = { long: window(15 * MINUTE, 200, used), burst: window(MINUTE, 40, burst), paused };
  return judgeQuota('a: workspace', { ...windows, nextForPeopleAt: NOW + 90_000 }, NOW);
}
const free = { long: window(1, null, 0), burst: window(1, null, 0), paused: null, nextForPeopleAt: NOW };
const webhooks = { takesWebhooks: true, polls: false, lastWebhookAt: null, lastRefused: null };
const arrivals = (facts: Partial<Parameters<typeof judgeArrivals>[0]>) => judgeArrivals({ ...webhooks, ...facts }, NOW);
const recent = { lastWebhookAt: NOW - MINUTE };
const refusedAt = (at: number, code: string) => arrivals({ ...recent, lastRefused: { at, code } });

it.each<[expected: string, found: Found]>([
  ['ok: agrees with 1 server', clockOff(30_000)],
  ['warning: ours is 31 s behind the clock of a', clockOff(31_000)],
  ['warning: ours is 31 s ahead of the clock of a', clockOff(-31_000)],
  ['warning: ours is 5 min behind the clock of a', clockOff(5 * MINUTE)],
  ['error: ours is 6 min behind the clock of a', clockOff(6 * MINUTE)],
  ['ok: ', disk(2_048, 0)],
  ['warning: ', disk(1_023, 0)],
  ['warning: ', disk(2_048, 700)],
  ['ok: ', disk(2_048, 600)],
  ['error: ', disk(99, 0)],
  ['ok: /data/a.db: 2.0 MB, no damage known', database()],
  ['warning: /data/a.db: another program reads it on and on', database(undefined, 80_000_000)],
  ['error: database_corrupt: a: page 3 is damaged', database(new DatabaseFault('corrupt', 'a', 'page 3 is damaged'))],
  [`ok: worksync ${describeBuild('1.2.3')} on Node 26.1.0`, judgeVersion('1.2.3', '26.1.0')],
  [`ok: worksync ${describeBuild('1.2.3')} on Node 22.19.0`, judgeVersion('1.2.3', '22.19.0')],
  [`error: worksync ${describeBuild('1.2.3')} on Node 22.18.9`, judgeVersion('1.2.3', '22.18.9')],
  [`error: worksync ${describeBuild('1.2.3')} on Node 20.11.1`, judgeVersion('1.2.3', '20.11.1')],
  ['ok: quota: 150 of 200 requests left in 15 min, 37 of 40 requests left in 1 min', quota(50, 3)],
  ['warning: quota: 0 of 200', quota(200, 3)],
  ['warning: quota: 197 of 200 requests left in 15 min, 0 of 40', quota(3, 41)],
  ['ok: quota: no limit', judgeQuota('a', free, NOW)],
  ['ok: last webhook 1 min ago', arrivals(recent)],
  ['warning: no recent webhook', arrivals({})],
  ['ok: no recent webhook', arrivals({ polls: true })],
  ['ok: takes no webhooks', arrivals({ takesWebhooks: false })],
  [
    'warning: last webhook 1 min ago; one was refused 0 s ago: signature_mismatch',
    refusedAt(NOW, 'signature_mismatch'),
  ],
  ['warning: last webhook 1 min ago; one was refused 0 s ago: odd', refusedAt(NOW, 'odd')],
  ['ok: last webhook 1 min ago', refusedAt(NOW - 2 * MINUTE, 'signature_mismatch')],
])('finds %s', (expected, found) => {
  expect(told(found).slice(0, expected.length)).toBe(expected);
});

it('blames the clock of a server that differs from most, and judges none that no server told', () => {
  const skews = [0, 0, 60 * MINUTE].map((ahead, index) => ({ server: `${index}`, ahead }));
  const hint = expect.stringContaining('operator of this server');
  expect(judgeClock(skews)).toMatchObject([{ level: 'warning', hint }]);
  expect(judgeClock([])).toEqual([]);
});

it('gives the remedy of a quota that is used up or paused, and of a file that is gone', () => {
  expect(quota(200, 3).hint).toContain('Wait 1 min');
  const paused = quota(1, 1, { until: NOW + 5 * MINUTE, code: 'unauthorized', reason: 'the key was refused' });
  expect(told(paused)).toMatch(/^warning: .*; nothing is sent for 5 min: the key was refused$/);
  expect(paused.hint).toContain('workspace.apiKey');
  expect(database(new DatabaseFault('gone', '/data/a.db', 'it was moved')).hint).toContain('put the file back');
});

it.each<[what: string, ago: number, others: number | null, count: number]>([
  ['a refusal of the last hour with requests of others', 10, 25, 1],
  ['an old refusal', 61, 25, 0],
  ['a refusal without others', 1, 0, 0],
  ['a refusal that tells nothing', 1, null, 0],
])('concludes from %s whether others use the workspace', (_what, minutes, othersLong, count) => {
  const last = { at: NOW - minutes * MINUTE, window: 'long', othersLong, othersBurst: null } as const;
  const found = judgeOthers('a', last, NOW);
  expect(found.map(told)).toEqual(Array(count).fill(expect.stringContaining('at least 25 requests were theirs')));
  expect(judgeOthers('a', null, NOW)).toEqual([]);
});

describe('the check of a workspace', () => {
  const TASK = { taskId: 't1', key: 'T-1' };
  const refused = (status: number, own = true) => new SyncError('refused', 'why', { status, own });

  interface Parts {
    readonly tasks?: readonly object[] | Error;
    readonly links?: Error;
    readonly task?: Error;
    readonly workflow?: object;
    readonly records?: Error;
    readonly mirror?: 'auto' | 'record' | 'off';
    readonly workspace?: object;
    readonly areIdempotent?: boolean;
    readonly causes?: readonly object[];
  }

  /** The findings as lines, and the requests that they took. */
  async function check({ tasks = [TASK], links, task, workflow, records, mirror = 'auto', ...parts }: Parts) {
    const store = await openTestStore();
    await configureLinks(store.query, parts.areIdempotent ?? false);
    const asked: string[] = [];
    const answer = (name: string, body: object | Error | undefined) => async (given: { query?: object }) => {
      asked.push(`${name} ${JSON.stringify(given.query ?? {})}`);
      if (body instanceof Error) throw body;
      return { status: 200, headers: {}, body };
    };
    const workspace = {
      name: 'work',
      store,
      config: {
        workspace: { url: 'https://w.example', statuses: {}, ...parts.workspace },
        connections: [{ mirror, webhookSecrets: ['s'], writeBack: {} }],
        rules: { triage: [], workflow: workflow && { rules: [], ...workflow } },
      },
      client: {
        listTasks: answer('tasks', tasks instanceof Error ? tasks : { tasks }),
        getTask: answer('task', task ?? TASK),
        listWorkItems: answer('links', links ?? { workItems: [] }),
        listPullRequestRecords: answer('records', records ?? { pullRequests: [] }),
      },
      connections: [],
      status: async () => ({ causes: parts.causes ?? [] }),
    } as unknown as OpenWorkspace;
    const findings = await checkWorkspace(workspace);
    expect(new Set(findings.map(({ subject }) => subject))).toEqual(new Set(['work: workspace']));
    return { asked, lines: findings.map(({ level, message }) => `${level} ${message}`), findings };
  }

  it('reads what the daemon reads, and says what it found', async () => {
    const { asked, lines } = await check({ tasks: ['t1', 't2'].map((taskId) => ({ taskId, key: taskId })) });
    expect(asked).toEqual(['tasks {"all":true}', 'links {}', 'records {"limit":100}']);
    expect(lines).toEqual([
      'ok https://w.example answers and accepts the key: 2 tasks, without keys',
      'ok links of tasks can be read; worksync reads the links of a task before it adds the first one',
      'ok pull requests: in the workspace',
    ]);
  });

  it('asks no more where the tasks cannot be read', async () => {
    const { asked, lines } = await check({ tasks: new SyncError('unauthorized', 'why', { status: 401 }) });
    expect(asked).toEqual(['tasks {"all":true}']);
    expect(lines).toEqual(['error unauthorized: why (w.example)']);
  });

  it('is postponed while the quota is used up, which no pipeline takes for a pass', async () => {
    const { findings } = await check({ tasks: new SyncError('rate_limited', 'the window is full') });
    expect(findings).toMatchObject([{ level: 'warning', isPostponed: true }]);
    expect(exitCodeOf(findings)).toBe(75);
    expect(exitCodeOf([...findings, { level: 'error', subject: 'work', message: 'no' }])).toBe(1);
  });

  it('reads no links where there is no task, and no records where mirror is off', async () => {
    expect((await check({ tasks: [], mirror: 'off' })).asked).toEqual(['tasks {"all":true}']);
  });

  describe('task updates', () => {
    it('reads one task by its route if the rules change statuses, and updates none', async () => {
      const { asked, lines } = await check({ workflow: {} });
      expect(asked).toEqual(['tasks {"all":true}', 'links {}', 'task {}', 'records {"limit":100}']);
      const route = '/workspaces/{workspaceId}/tasks/{taskId}';
      expect(lines).toContain(`ok tasks can be read; an update sends the whole task by PUT ${route}, not tried`);
      const api = { taskUpdate: 'fields', routes: { updateTask: { method: 'PATCH', path: '/tasks/{taskId}' } } };
      const other = await check({ workflow: {}, workspace: { api } });
      expect(other.lines).toContain(
        'ok tasks can be read; an update sends the changed fields by PATCH /tasks/{taskId}, not tried',
      );
    });

    it('warns that statuses are not changed if a task cannot be read by its route', async () => {
      const { lines } = await check({ workflow: {}, task: refused(405) });
      expect(lines).toContain('warning the workspace has no route for task updates: statuses are not changed (why)');
    });
  });

  it.each([
    [false, 'error'],
    [true, 'warning'],
  ])('links that cannot be read with idempotent links %s are an %s', async (areIdempotent, level) => {
    const { lines } = await check({ links: refused(405), areIdempotent });
    expect(lines).toContain(`${level} links of tasks cannot be read: why`);
  });

  describe('a server that does not list records', () => {
    const HERE = 'pull requests: here only: the workspace has no route to record them';
    const SO_FAR = 'pull requests: here so far: the workspace has not said whether it records them (why)';
    it.each<[what: string, records: Error, mirror: 'auto' | 'record', line: string]>([
      ['has no such route', refused(404), 'auto', `ok ${HERE}`],
      ['lacks a route that the configuration wants', refused(501), 'record', `warning record_not_supported: ${HERE}`],
      ['may be hidden by a proxy', refused(404, false), 'auto', `warning ${SO_FAR}`],
      ['is asked too often', refused(429), 'auto', `warning ${SO_FAR}`],
      ['fails', refused(503), 'record', `warning ${SO_FAR}`],
    ])('%s', async (_what, records, mirror, line) => {
      const { lines } = await check({
        ...{ records, mirror },
        causes: [{ code: 'record_not_supported', message: 'no route', hint: 'h', verdict: 'degraded' }],
      });
      expect(lines.slice(2)).toEqual([line]);
    });
  });

  it('warns where records are sent to the address that opens pull requests', async () => {
    const route = { method: 'POST', path: '/workspaces/{workspaceId}/pull-requests' };
    const { lines } = await check({ workspace: { api: { routes: { recordPullRequest: route } } } });
    expect(lines.at(-1)).toBe(
      'warning records are sent to /workspaces/{workspaceId}/pull-requests, where the specification says that a POST opens a pull request at the provider',
    );
  });

  it('warns where the workspace has one word for several statuses', async () => {
    const { lines } = await check({
      workspace: { statuses: { completed: 'Done', merged: 'Done', review: 'blocked' } },
    });
    expect(lines.slice(3)).toEqual([
      'warning the workspace has one word, blocked, for review and blocked: worksync reads it as review',
      'warning the workspace has one word, Done, for completed and merged: worksync reads it as completed',
    ]);
  });

  it('says by what webhooks are proved, and repeats what the status says of the server', async () => {
    const { lines } = await check({
      workspace: { webhook: { key: ['k'], secret: ['s'] } },
      causes: [
        { code: 'workspace_routes_off', message: 'off', hint: 'h', verdict: 'degraded' },
        { code: 'changes_held', message: 'held', hint: 'h', verdict: 'degraded' },
        { code: 'disk_full', message: 'full', hint: 'h', verdict: 'blocked' },
      ],
    });
    expect(lines.slice(-3)).toEqual([
      'ok webhooks of the workspace are accepted with the shared key and a signature',
      'warning workspace_routes_off: off',
      'error disk_full: full',
    ]);
  });
});

describe('the check of a database server', () => {
  const SOUND: ServerFacts = {
    version: 180_004,
    settings: { fsync: 'on', full_page_writes: 'on', synchronous_commit: 'on', synchronous_standby_names: '' },
    encoding: 'UTF8',
    ...{ encrypted: true, isLocal: false, isStandby: false },
    ...{ most: 100, free: 90, wanted: 7 },
    ...{ isSuperuser: false, mayCreate: true, foreign: [] },
    ...{ standbys: 0, latency: 0.42, ahead: 0 },
  };

  /** Expects a hint in each finding that is not ok. Returns level and message. */
  function told(facts: Partial<Omit<ServerFacts, 'settings'>>, settings: ServerFacts['settings'] = {}): string[] {
    const all = { ...SOUND.settings, ...settings };
    const found = judgeServer('postgres://db/worksync', { ...SOUND, ...facts, settings: all });
    for (const { level, hint } of found) expect(hint === undefined).toBe(level === 'ok');
    return found.map(({ level, message }) => `${level}: ${message}`);
  }

  const wrong = (lines: readonly string[]) => lines.filter((line) => !line.startsWith('ok: '));

  describe('a PostgreSQL', () => {
    it('that is sound tells its version, connections and speed', () => {
      expect(told({})).toEqual([
        'ok: postgres://db/worksync: PostgreSQL 18.4',
        'ok: what it has committed is on its disk',
        'ok: 90 of 100 connections are free; each worksync takes up to 7',
        'ok: a statement takes 0.4 ms',
      ]);
    });

    it.each<[expected: string, facts: Partial<ServerFacts>, settings?: ServerFacts['settings']]>([
      ['error: postgres://db/worksync: PostgreSQL 13.23', { version: 130_023 }],
      ['error: the database stores texts as LATIN1', { encoding: 'LATIN1' }],
      ['error: it is a standby', { isStandby: true }],
      ['error: default_transaction_read_only is on', {}, { default_transaction_read_only: 'on' }],
      ['warning: the role is a superuser', { isSuperuser: true }],
      ['warning: the role may not make tables', { mayCreate: false }],
      ['warning: another role owns 2 tables of the schema (inbox)', { foreign: ['inbox', 'items'] }],
      ['error: fsync is off', {}, { fsync: 'off' }],
      ['warning: full_page_writes is off', {}, { full_page_writes: 'off' }],
      ['error: synchronous_commit is off', {}, { synchronous_commit: 'off' }],
      [
        'nothing waits for the standbys',
        { standbys: 1 },
        { synchronous_commit: 'local', synchronous_standby_names: 'b' },
      ],
      ['warning: it waits for a standby at each commit', {}, { synchronous_standby_names: 'b' }],
      ['warning: it has 2 standbys and waits for none at a commit', { standbys: 2 }],
      ['error: 6 of 6 connections are free', { most: 6, free: 6 }],
      ['warning: 3 of 100 connections are free', { free: 3 }],
      ['warning: a statement takes 21.0 ms', { latency: 21 }],
      ['warning: the connection is not encrypted', { encrypted: false }],
    ])('that is not sound: %s', (expected, facts, settings) => {
      const [first, ...more] = wrong(told(facts, settings));
      expect(first).toContain(expected);
      expect(more).toEqual([]);
    });

    it.each<[string, Partial<ServerFacts>, ServerFacts['settings']]>([
      ['of the oldest version', { version: 140_000 }, {}],
      ['of this machine, in clear', { encrypted: false, isLocal: true }, {}],
      ['with a standby that it waits for', { standbys: 1 }, { synchronous_standby_names: 'b' }],
      ['with a commit that is local, and no standby', {}, { synchronous_commit: 'local' }],
      ['with just enough connections', { most: 7, free: 7 }, {}],
    ])('%s is sound', (_what, facts, settings) => expect(wrong(told(facts, settings))).toEqual([]));
  });

  /** A role that has a schema of its own, and nothing else. */
  async function roleAlone(): Promise<{
    readonly address: string;
    readonly admin: pg.Client;
    readonly schema: string;
  }> {
    const address = new URL(inject('postgres'));
    const admin = new pg.Client({ connectionString: address.href });
    await admin.connect();
    onTestFinished(() => admin.end());
    const schema = `alone_${systemRandom().bytes(4).toString('hex')}`;
    await admin.query(`create role ${schema} login password 'alone'; create schema ${schema} authorization ${schema}`);
    address.username = schema;
    address.password = 'alone';
    return { address: `${address.href}?schema=${schema}`, admin, schema };
  }

  async function openAlone(address: string) {
    const installation = await openInstallationFile({ file: address, random: systemRandom() });
    onTestFinished(() => installation.close());
    return installation;
  }

  describe.runIf(ON_POSTGRES)('a role with nothing but its own schema', () => {
    it('is enough for all that worksync does', async () => {
      const { address } = await roleAlone();
      const installation = await openAlone(address);
      const { commit, query } = await installation.store('acme');
      await appendDeliveries(
        query,
        [{ connection: 'github', key: 'k', source: 'webhook', event: 'push', body: Buffer.from('{}') }],
        1,
      );
      const task = { task_id: 't', key: 'BUG-7', source: 's', status: 's', fields: '{}', seen_at: 1 };
      await commit((scope) => saveRows(scope, 'tasks', [task]));
      expect(await readCounts(query)).toMatchObject({ tasks: 1 });
      const server = installation.asServer!;
      expect((await server.time()).clock).toMatch(/^[0-9A-F]{8}$/);
      const heard = await new Promise((resolve) => {
        const end = server.listen('alone', resolve, () => void server.notify('alone', 'bell'));
        onTestFinished(async () => (await end)());
      });
      expect(heard).toBe('bell');
      // The query of a readiness probe.
      const { rows } = await sql`select pg_current_xact_id() is not null as numbered`.execute(installation.query);
      expect(rows).toEqual([{ numbered: true }]);
      const number = await findWorkspace(installation.query, 'acme');
      expect(await forgetWorkspace(installation, number!)).toBe(2);
    });

    it('tells what it may, and what of it is too little', async () => {
      const { address, admin, schema } = await roleAlone();
      const installation = await openAlone(`${address}&connections=2`);
      const facts = async () => judgeServer(schema, await installation.asServer!.facts());
      const known = await installation.asServer!.facts();
      expect(known).toMatchObject({ isSuperuser: false, mayCreate: true, foreign: [], isLocal: true, wanted: 5 });
      expect(known).toMatchObject({ encoding: 'UTF8', isStandby: false, standbys: 0, encrypted: false });
      expect(known.version).toBeGreaterThan(140_000);
      expect(known.free).toBeGreaterThan(0);
      expect(Math.abs(known.ahead)).toBeLessThan(60_000);
      await admin.query(`alter table ${schema}.items owner to current_user`);
      await admin.query(`alter schema ${schema} owner to current_user; grant usage on schema ${schema} to ${schema}`);
      await admin.query(`alter role ${schema} connection limit 4`);
      const found = (await facts()).map(({ message }) => message).join('\n');
      expect(found).toContain('may not make tables');
      expect(found).toContain('another role owns 1 table of the schema (items)');
      expect(found).toMatch(/[0-3] of 4 connections are free; each worksync takes up to 5/);
    });

    it('is told by the durability of its sessions, and by a superuser', async () => {
      const { address, admin, schema } = await roleAlone();
      await admin.query(`alter role ${schema} set synchronous_commit to off`);
      const alone = await openAlone(address);
      expect((await alone.asServer!.facts()).settings['synchronous_commit']).toBe('off');
      const all = await openAlone(`${inject('postgres')}?schema=${schema}`);
      expect(await all.asServer!.facts()).toMatchObject({ isSuperuser: true });
    });
  });
});

const CONNECTION = 'connections: { main: { connector: forge, projects: [one], writeBack: { close: true } } }\n';
const WORKSPACE = 'workspace: { url: https://w.example, apiKey: k, statuses: { in_progress: Doing } }\n';

const FACTS: Parameters<typeof workflowFindings>[1] = {
  statuses: new Set(['open', 'completed']),
  labels: new Set(),
  pullRequests: [],
  sources: [{ name: 'main', pullRequests: true, workItems: true, mayCover: () => true }],
};

/** The findings about rules, each a YAML mapping. */
function check(rules: readonly string[], preset = '', facts: Partial<typeof FACTS> = {}): string[] {
  const text = `${CONNECTION}${WORKSPACE}rules:\n  workflow:\n    ${preset}\n    rules: [${rules.join(', ')}]\n`;
  const [config] = loadText(text).workspaces;
  if (config === undefined) throw new Error('there is no workspace');
  return workflowFindings(config, { ...FACTS, ...facts }, 'work').map(({ level, message }) => `${level} ${message}`);
}

it('reports a rule that an earlier one covers, and none that is narrower', () => {
  const wide = '{ when: { pullRequest: [open, merged] }, set: { status: open } }';
  const narrow = '{ when: { pullRequest: open, labels: urgent }, set: { status: open } }';
  expect(check([wide, narrow])).toEqual([
    'warning rule 2 of rules.workflow never applies: rule 1 of rules.workflow takes all its items',
  ]);
  expect(check([narrow, wide])).toEqual([]);
  const closing = '{ when: { pullRequest: merged }, set: { status: completed } }';
  const carrying = '{ when: { pullRequest: merged, link: carrying }, set: { status: open } }';
  expect(check([closing, carrying])).toEqual([]);
  const bothKinds = '{ when: { pullRequest: open, workItem: in_progress }, set: { status: open } }';
  expect(check([wide, bothKinds])).toEqual([]);
  expect(check([bothKinds, '{ when: { workItem: in_progress }, set: { status: open } }'])).toHaveLength(1);
  const anyBase = '{ when: { pullRequest: open, base: "*" }, set: { status: open } }';
  expect(check([anyBase, narrow])).toHaveLength(1);
  const others = '{ when: { pullRequest: merged, base: ["*", "!main"] }, set: { status: open } }';
  expect(check([others, '{ when: { pullRequest: merged, base: main }, set: { status: open } }'])).toEqual([]);
});

it('reports a base or a repository that no open pull request has', () => {
  const found = [
    { baseBranch: 'main', defaultBranch: 'main', repoId: '7', repoName: 'acme/app' },
    { baseBranch: 'release/2', defaultBranch: 'main', repoId: '8', repoName: null },
  ];
  const rule = (when: string) => `{ when: { pullRequest: merged, ${when} }, set: { status: open } }`;
  for (const when of [
    'base: default',
    'base: release/*',
    'base: ["*", "!main"]',
    'repository: acme/*',
    'repository: "8"',
  ])
    expect(check([rule(when)], '', { pullRequests: found })).toEqual([]);
  expect(check([rule('base: develop'), rule('repository: acme/wbe')], '', { pullRequests: found })).toEqual([
    'warning rule 1 of rules.workflow applies to the base develop, and no open pull request has it; they have: main, release/2',
    'warning rule 2 of rules.workflow applies to the repository acme/wbe, but no open pull request is in it; there are some in: acme/app, 8',
  ]);
  for (const when of ['base: develop', 'repository: acme/wbe']) expect(check([rule(when)])).toEqual([]);
});

it('reports a repository that no connection lists, before its first pull request is known', () => {
  const [source] = FACTS.sources;
  const sources = source ? [{ ...source, mayCover: (name: string) => name === 'acme/web' }] : [];
  const rule = (name: string) => `{ when: { pullRequest: merged, repository: "${name}" }, set: { status: open } }`;
  for (const name of ['acme/web', 'acme/*', '8']) expect(check([rule(name)], '', { sources })).toEqual([]);
  expect(check([rule('acme/wbe')], '', { sources })).toEqual([
    'warning rule 1 of rules.workflow applies to acme/wbe, which no connection of the rule covers',
  ]);
});

it('reports a rule whose items no connection provides', () => {
  const sources = [
    { name: 'main', pullRequests: true, workItems: false, mayCover: () => true },
    { name: 'other', pullRequests: false, workItems: true, mayCover: () => true },
  ];
  const rule = (when: string) => `{ when: { ${when} }, set: { status: open } }`;
  const both = rule('workItem: in_progress, pullRequest: open, connection: main');
  expect(check([rule('pullRequest: open'), rule('workItem: in_progress'), both], '', { sources })).toEqual([]);
  expect(check([rule('workItem: in_progress, connection: main')], '', { sources })).toEqual([
    'warning rule 1 of rules.workflow never applies: no connection of the rule provides work items',
  ]);
  // A tracker covers no repository of pull requests.
  const [git, tracker] = sources;
  const uncovered = git && tracker ? [{ ...git, mayCover: () => false }, tracker] : [];
  expect(check([rule('pullRequest: open, repository: acme/wbe')], '', { sources: uncovered })).toHaveLength(1);
});

it('reports a rule for new tasks that no work item can fit', () => {
  const [config] = loadText(
    `${CONNECTION}rules: { triage: [{ create: bug }, { when: { project: acme/wbe }, create: bug }] }\n`,
  ).workspaces;
  if (config === undefined) throw new Error('there is no workspace');
  const messages = (workItems: boolean) =>
    triageFindings(config, [{ name: 'main', pullRequests: true, workItems, mayCover: () => false }], 'work').map(
      ({ message }) => message,
    );
  expect(messages(true)).toEqual([
    'rule 2 of rules.triage applies to acme/wbe, which no connection of the rule covers',
  ]);
  expect(messages(false)).toEqual([
    'rule 1 of rules.triage never applies: no connection of the rule provides work items',
    'rule 2 of rules.triage never applies: no connection of the rule provides work items',
  ]);
});

it('reports labels that may be misspelt, and those that must exist', () => {
  const rules = [
    '{ when: { pullRequest: open }, set: { addLabels: [revieww, urgent] } }',
    '{ when: { pullRequest: merged }, set: { removeLabels: other } }',
  ];
  expect(check(rules, '', { labels: new Set(['review']) })).toEqual([
    'warning rule 1 of rules.workflow names the label revieww, which no task has; did you mean review?',
    'ok no task has these labels at present, which rules add: revieww, urgent; they must exist in the workspace',
  ]);
});

it('reports a status in from that no task has', () => {
  const rule = (from: string) => `{ when: { pullRequest: open }, set: { status: open }, from: ${from} }`;
  expect(check([rule('opne')])).toEqual([
    'warning "from" of rule 1 of rules.workflow names statuses that no task has: opne',
  ]);
  for (const from of ['open', '[planned, completed]']) expect(check([rule(from)])).toEqual([]);
});

it('reports force and a `from` beside it, a queue without webhooks, merged with write-back, and statuses that no task has', () => {
  const queued = '{ when: { pullRequest: queued }, set: { status: merged }, force: true }';
  const draft = '{ when: { pullRequest: draft }, set: { status: open }, from: planned, force: true }';
  expect(check([queued, draft])).toEqual([
    'warning rule 1 of rules.workflow has "force": it undoes what people do',
    'warning rule 2 of rules.workflow has "force": it undoes what people do, and its "from" has no effect',
    'warning a rule of rules.workflow is about "queued", which polls do not show: main',
    'warning rule 1 of rules.workflow sets "merged", which counts as finished: write-back closes items of main',
    expect.stringMatching(/^ok no task has these statuses yet, which rules set: merged;/),
  ]);
  expect(check([], 'preset: standard')).toEqual([
    expect.stringMatching(/^ok no task has these statuses yet, which rules set: Doing, review;/),
  ]);
});
