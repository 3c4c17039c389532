import { existsSync, globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { defineConfig, type TestProjectConfiguration, type TestUserConfig } from 'vitest/config';
import { LongestFirst } from './support/harness/longest-first.ts';
import { folderOfTests } from './support/harness/memory-disk.ts';

/** Milliseconds. No limit of time decides a test; this ends what hangs, also beside twenty busy processes. */
const HANGS = 300_000;
/** The time limit of a test with hundreds of cases. */
const LONG = 1_200_000;

const ROOT = `${import.meta.dirname}/..`;

const PURE = ['test/unit/**/*.test.ts', 'test/project/**/*.test.ts'];
/** They start programs of their own. */
const PROCESSES = 'test/**/*.process.test.ts';
const WHOLE = ['contracts', 'fuzz', 'laws', 'scenarios', 'faults'].map(inFolder);
/** They need a process of their own. */
const ALONE = [
  // It puts a module in the place of one of the project's, which no other file of tests may have loaded before.
  'test/scenarios/mute-daemon.test.ts',
];
/** A process of its own for each step of each piece of work: in `npm run test:deep`. */
const ONE_BY_ONE = 'test/faults/killed-work.test.ts';
/** Processes that are killed at their steps. */
const KILLS = ['test/faults/crash.test.ts', ONE_BY_ONE];
/** They run some of their cases in `npm test`, and all in `npm run test:deep`. */
const DRAWN = [
  ...globSync('test/**/*.test.ts', { cwd: ROOT }).filter((file) =>
    readFileSync(`${ROOT}/${file}`, 'utf8').includes('/harness/depth.ts'),
  ),
  // Its cases are in `test/contracts/workspace/`.
  'test/contracts/workspace.test.ts',
];

/** About the files of SQLite: data folders, plans and statistics, the files of versions before there was one database. */
const ABOUT_FILES = [
  'test/**/*.sqlite.test.ts',
  // Backups are of files, and so is `forget` for as long as nothing runs.
  'test/unit/admin/data.test.ts',
];

/** The tests that run on both databases. */
const ON_POSTGRES = [
  'store',
  ...['sync/intake', 'sync/quota', 'sync/reconcile', 'sync/outbox', 'sync/write-back'],
  ...['workspace-api/capture', 'cluster', 'admin'],
].map((room) => `test/unit/${room}/**/*.test.ts`);

/** They run the same over both: commands that ask nobody, programs that start with a data folder, and what starts a PostgreSQL of its own. */
const WITHOUT_STORE = [
  ...['client', 'init', 'init-github-app', 'mute-daemon'],
  ...['cli', 'commands', 'gateway-token', 'looking-inside', 'wait'],
  'replicas',
].map((name) => `test/scenarios/${name}.test.ts`);

/** Laws of what a store holds. */
const LAWS_OF_STORES = [
  ...['batch-or-one-by-one', 'convergence', 'lease', 'quota'],
  ...['scope-names', 'task-states', 'triage', 'workspace-sweep'],
].map((name) => `test/laws/${name}.test.ts`);

/** Tests that run in `npm run test:deep` only. */
const ONLY_DEEP = ['test/**/*.deep.test.ts'];

/** Daemons, laws and kills over PostgreSQL, and what must not be found in its rows. */
const WHOLE_ON_POSTGRES = ['test/scenarios/**/*.test.ts', ...LAWS_OF_STORES, ...KILLS, 'test/deep/canaries.test.ts'];

/** Days pass in them, of which each second is a statement to PostgreSQL: six times as long as over a file. */
const DAYS = ['at-rest', 'backfill', 'sweep', 'trouble', 'workspace-sweep', 'write-back'].map(
  (name) => `test/scenarios/${name}.test.ts`,
);

/** Node's compiled modules, which later runs reuse. */
const COMPILED = `${ROOT}/node_modules/.cache/tests`;

function project(name: string, include: string[], more: TestUserConfig = {}): TestProjectConfiguration {
  return {
    extends: true,
    test: {
      name,
      include,
      ...more,
      env: { TZ: 'UTC', TMPDIR: folderOfTests(), NODE_COMPILE_CACHE: COMPILED, ...more.env },
    },
  };
}

const OVER_POSTGRES = { globalSetup: ['test/support/postgres/postgres-setup.ts'], env: { TEST_STORE: 'postgres' } };

const EACH_STEP = { TEST_DEPTH: 'deep', TEST_KILLS: '3' };

/** The version of Debian 12, where it is installed. */
const DEBIAN = '/usr/lib/postgresql/15/bin';
const onDebian = existsSync(DEBIAN)
  ? [
      project(
        'postgres-15',
        ['store', 'lease', 'operator'].map((room) => `test/unit/${room}/**/*.test.ts`),
        {
          ...{ exclude: ABOUT_FILES, isolate: false, globalSetup: OVER_POSTGRES.globalSetup },
          env: { ...OVER_POSTGRES.env, TEST_POSTGRES_PROGRAMS: DEBIAN },
        },
      ),
    ]
  : [];

function inFolder(folder: string): string {
  return `test/${folder}/**/*.test.ts`;
}

export default defineConfig({
  test: {
    root: ROOT,
    pool: 'forks',
    // Node loads the modules itself, as where they run: it takes less time than Vite, and nothing stands between.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    // One more than there are cores, because some tests wait for processes and time-outs. Each loads the modules anew, for seconds.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: LongestFirst },
    setupFiles: ['test/support/harness/setup.ts'],
    testTimeout: HANGS,
    hookTimeout: HANGS,
    expect: { poll: { timeout: HANGS, interval: 20 } },
    projects: [
      // Without a process for each file: they share no state, and to load the modules takes a third of their time.
      project('fast', PURE, { exclude: [PROCESSES, ...ALONE, ...ONLY_DEEP], isolate: false }),
      project('whole', [...WHOLE, PROCESSES], { exclude: [ONE_BY_ONE, ...ALONE, ...ONLY_DEEP], isolate: false }),
      project('alone', ALONE),
      // One day; all else over PostgreSQL runs in `npm run test:deep`.
      project('postgres', ['test/scenarios/task-day.test.ts'], OVER_POSTGRES),
      project('postgres-units', ON_POSTGRES, {
        exclude: [...ABOUT_FILES, ...ONLY_DEEP],
        isolate: false,
        ...OVER_POSTGRES,
      }),
      project('postgres-whole', WHOLE_ON_POSTGRES, {
        exclude: [...ABOUT_FILES, ...WITHOUT_STORE, ...DAYS],
        isolate: false,
        ...OVER_POSTGRES,
      }),
      ...onDebian,
      // Each step of a process three times, and days over PostgreSQL: `npm run test:crash`.
      project('kills', KILLS, { env: EACH_STEP, testTimeout: LONG }),
      project('kills-on-postgres', [...KILLS, ...DAYS], {
        ...{ globalSetup: OVER_POSTGRES.globalSetup, testTimeout: LONG },
        env: { ...OVER_POSTGRES.env, ...EACH_STEP },
      }),
      // It takes minutes; the other faults of replicas run in `deep/replicas.test.ts`.
      project('replicas', ['test/replicas/**/*.test.ts'], { fileParallelism: false, testTimeout: LONG }),
      project('deep', ['deep', 'laws', 'power'].map(inFolder).concat(DRAWN, ONLY_DEEP), {
        env: { TEST_DEPTH: 'deep' },
        testTimeout: LONG,
        hookTimeout: LONG,
      }),
    ],
  },
});
