import { spawn } from 'node:child_process';

/**
 * How a mistake is looked for: by the closest tests of `npm test` that load its file, by the others that load it, by all of
 * `npm test`, and by the deep tests that load its file.
 */
export const WAYS = ['closest', 'near', 'rest', 'deep'] as const;
export type Way = (typeof WAYS)[number];

const PROJECTS: Readonly<Record<Way, readonly string[]>> = {
  closest: ['fast', 'whole', 'alone'],
  near: ['fast', 'whole', 'alone'],
  rest: ['fast', 'whole', 'alone', 'postgres'],
  deep: ['deep'],
};

/** Test files. Most mistakes are found by these. */
const CLOSEST = 20;
/** A process that takes longer hangs, milliseconds. */
const PATIENCE = 600_000;
/** A test that takes longer hangs, milliseconds. */
const PATIENCE_OF_TEST = 180_000;

/**
 * Returns what showed the mistake; undefined: nothing.
 *
 * @param folder the project with the mistake
 * @param tests the test files that load the file of the mistake, the closest first
 */
export async function tryOut(way: Way, folder: string, tests: readonly string[]): Promise<string | undefined> {
  const files = { closest: tests.slice(0, CLOSEST), near: tests.slice(CLOSEST), rest: [], deep: tests }[way];
  if (way !== 'rest' && files.length === 0) return undefined;
  const { code, isLate, output } = await run(
    [
      ...['node_modules/vitest/vitest.mjs', 'run', '--config', 'test/vitest.config.ts', '--bail', '1'],
      ...PROJECTS[way].flatMap((project) => ['--project', project]),
      ...['--passWithNoTests', '--reporter', 'default', '--testTimeout', String(PATIENCE_OF_TEST), ...files],
    ],
    folder,
  );
  if (isLate) return 'it hangs';
  return code === 0 ? undefined : (/FAIL .*|Error: .*/.exec(output)?.[0].trim().slice(0, 160) ?? 'it ends');
}

interface Ended {
  readonly code: number | null;
  readonly isLate: boolean;
  readonly output: string;
}

function run(args: readonly string[], cwd: string): Promise<Ended> {
  return new Promise((resolve) => {
    const env = { ...process.env, NO_COLOR: '1' };
    const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let output = '';
    let isLate = false;
    const collect = (text: Buffer) => {
      output += text.toString();
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    // Together with the processes that it started.
    const timer = setTimeout(() => {
      isLate = true;
      process.kill(-(child.pid as number), 'SIGKILL');
    }, PATIENCE);
    child.once('close', (code) => {
      clearTimeout(timer);
      resolve({ code, isLate, output });
    });
  });
}
