import { sql } from 'kysely';
import pg from 'pg';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import type { OpenWorkspace } from '../../../src/admin/open-workspace.ts';
import {
  judgeArrivals,
  judgeClock,
  judgeDatabase,
  judgeDisk,
  judgeQuota,
  judgeServer,
  judgeVersion,
} from '../../../src/admin/status/check-facts.ts';
import { workflowFindings } from '../../../src/admin/workspace/check-rules.ts';
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
const webhooks = { takesWebhooks: true, polls: false, lastWebhookAt: null, lastRefused: null };
const arrivals = (facts: Partial<Parameters<typeof judgeArrivals>[0]>) => judgeArrivals({ ...webhooks, ...facts }, NOW);
const recent = { lastWebhookAt: NOW - MINUTE };
const refusedAt = (at: number, code: string) => arrivals({ ...recent, lastRefused: { at, code } });

it.each<[expected: string, found: Found]>([
  ['ok: agrees with 1 server', clockOff(30_000)],
  ['warning: ours is 31 s behind the clock of a', clockOff(31_000)],
  ['warning: ours is 31 s ahead of the clock of a', clockOff(-31_000)],
  ['error: ours is 6 min behind the clock of a', clockOff(6 * MINUTE)],
  ['ok: ', disk(2_048, 0)],
  ['warning: ', disk(2_048, 700)],
  ['error: ', disk(99, 0)],
  ['ok: /data/a.db: 2.0 MB, no damage known', database()],
  ['warning: /data/a.db: another program reads it on and on', database(undefined, 80_000_000)],
  ['error: database_corrupt: a: page 3 is damaged', database(new DatabaseFault('corrupt', 'a', 'page 3 is damaged'))],
  [`ok: worksync ${describeBuild('1.2.3')} on Node 22.19.0`, judgeVersion('1.2.3', '22.19.0')],
  [`error: worksync ${describeBuild('1.2.3')} on Node 20.11.1`, judgeVersion('1.2.3', '20.11.1')],
  ['ok: quota: 150 of 200 requests left in 15 min, 37 of 40 requests left in 1 min', quota(50, 3)],
  ['warning: quota: 0 of 200', quota(200, 3)],
  ['ok: last webhook 1 min ago', arrivals(recent)],
  ['warning: no recent webhook', arrivals({})],
  ['ok: takes no webhooks', arrivals({ takesWebhooks: false })],
  [
    'warning: last webhook 1 min ago; one was refused 0 s ago: signature_mismatch',
    refusedAt(NOW, 'signature_mismatch'),
  ],
  ['ok: last webhook 1 min ago', refusedAt(NOW - 2 * MINUTE, 'signature_mismatch')],
])('finds %s', (expected, found) => {
  expect(told(found).slice(0, expected.length)).toBe(expected);
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

  describe('task updates', () => {
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
      ['is asked too often', refused(429), 'auto', `warning ${SO_FAR}`],
    ])('%s', async (_what, records, mirror, line) => {
      const { lines } = await check({
        ...{ records, mirror },
        causes: [{ code: 'record_not_supported', message: 'no route', hint: 'h', verdict: 'degraded' }],
      });
      expect(lines.slice(2)).toEqual([line]);
    });
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
    it.each<[expected: string, facts: Partial<ServerFacts>, settings?: ServerFacts['settings']]>([
      ['error: postgres://db/worksync: PostgreSQL 13.23', { version: 130_023 }],
      ['error: it is a standby', { isStandby: true }],
      ['warning: the role is a superuser', { isSuperuser: true }],
      ['warning: the role may not make tables', { mayCreate: false }],
      ['error: fsync is off', {}, { fsync: 'off' }],
      [
        'nothing waits for the standbys',
        { standbys: 1 },
        { synchronous_commit: 'local', synchronous_standby_names: 'b' },
      ],
      ['warning: it has 2 standbys and waits for none at a commit', { standbys: 2 }],
      ['error: 6 of 6 connections are free', { most: 6, free: 6 }],
      ['warning: a statement takes 21.0 ms', { latency: 21 }],
    ])('that is not sound: %s', (expected, facts, settings) => {
      const [first, ...more] = wrong(told(facts, settings));
      expect(first).toContain(expected);
      expect(more).toEqual([]);
    });

    it.each<[string, Partial<ServerFacts>, ServerFacts['settings']]>([
      ['of this machine, in clear', { encrypted: false, isLocal: true }, {}],
      ['with a commit that is local, and no standby', {}, { synchronous_commit: 'local' }],
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
  const others = '{ when: { pullRequest: merged, base: ["*", "!main"] }, set: { status: open } }';
  expect(check([others, '{ when: { pullRequest: merged, base: main }, set: { status: open } }'])).toEqual([]);
});
