import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isDeep, sampleOf } from '../../support/harness/depth.ts';
import { folderOfTest } from '../../support/harness/folder.ts';
import { type Ended, startNode, startProgram, TOP } from '../../support/harness/processes.ts';

/** Many times as much as a pipe takes: 700 bytes of JSON for each file that is found, and an error for each that is not. */
const FOUND = isDeep ? 6_500 : 900;
const MISSING = isDeep ? 1_000 : 200;

/** Runs a command in a shell, its output in a pipe: first the JSON, then the errors. */
async function runInto(reader: string) {
  const folder = folderOfTest('ending');
  copyFileSync(join(TOP, 'src/connectors/github/fixtures/pull_request.opened.json'), join(folder, 'p'));
  const command = `"${process.execPath}" "${TOP}/src/main.ts" translate github --event pull_request --json`;
  const files = `$(yes p | head -n ${FOUND}) $(seq -f missing-%g ${MISSING})`;
  const script = `{ ${command} ${files} 2>&1; echo $? > code; } | { ${reader}; } > read`;
  const { stderr } = await startProgram('bash', ['-c', script], { cwd: folder }).ended;
  const content = (name: string) => readFileSync(join(folder, name), 'utf8');
  return { code: Number(content('code')), read: content('read'), stderr };
}

test('a slow reader gets the whole output and all errors of a command', async () => {
  const { code, read } = await runInto('sleep 1; cat');
  const objects = read.split('\n').filter((line) => line.startsWith('{'));
  expect([code, objects.length, objects.join('\n').length > 700 * FOUND]).toEqual([1, FOUND + MISSING, true]);
  for (const line of objects) JSON.parse(line);
  expect(read.match(/^\S.*missing-\d+: /gm)).toHaveLength(MISSING);
});

test('a command ends quietly, with the exit code of SIGPIPE, when its reader goes', async () => {
  const { code, read, stderr } = await runInto('head -c 7');
  expect({ code, read, stderr }).toEqual({ code: 141, read: '{"file"', stderr: '' });
});

interface Program {
  /** Closes everything, as its own text says. */
  readonly close: string;
  /** Runs before the signal. */
  readonly work?: string;
  /** Whether the time for the shutdown is over at once; otherwise it never is. */
  readonly isLate?: boolean;
}

/** A process that gets SIGTERM. */
async function endOf({ close, work = '', isLate = false }: Program): Promise<Ended> {
  const program = `
    import { endOnSignals } from './src/cli/signals.ts';
    import { systemClock } from './src/platform/lib/clock.ts';
    import { createLogger } from './src/platform/observe/pino-logger.ts';
    import { createScrubber } from './src/platform/observe/scrubber.ts';
    const logger = createLogger({ level: 'info', scrubber: createScrubber() });
    endOnSignals({
      clock: { ...systemClock(), after: (_ms, call) => void (${isLate} && setImmediate(call)) },
      logger,
      async close(report) { report('the workspaces', false); ${close} },
      reload: () => Promise.reject(new Error('no such folder')),
    });
    setInterval(() => undefined, 1_000);
    ${work}
    console.log('up');
  `;
  const running = startNode(['--input-type=module', '-e', program]);
  await running.says('up');
  return running.end('SIGTERM');
}

/** The last line of the log. */
function lastOf({ stderr }: Ended): Record<string, unknown> {
  return JSON.parse(stderr.trim().split('\n').at(-1) ?? '') as Record<string, unknown>;
}

describe('an end that takes longer than it may says what is open,', () => {
  const NEVER = 'await new Promise(() => undefined);';

  test.each([
    ['ends with 0 if everything is stored', `report('the database', true); ${NEVER}`, 'the database', 0],
    ['ends with 1 if something is not', NEVER, 'the workspaces', 1],
  ])('and %s', async (_what, close, closing, code) => {
    const ended = await endOf({ close, isLate: true });
    expect(ended.code).toBe(code);
    expect(lastOf(ended)).toMatchObject({
      level: code === 0 ? 'warn' : 'error',
      msg: 'the shutdown timed out before everything was closed',
      ...{ closing, stored: code === 0, waited: 8_000 },
    });
  });
});

describe('an end that is not in order says why, and ends with 1:', () => {
  test('something cannot be closed', async () => {
    const ended = await endOf({ close: "throw new Error('the disk is gone')" });
    expect(ended.code).toBe(1);
    expect(lastOf(ended)).toMatchObject({
      level: 'error',
      msg: 'some parts could not be closed cleanly',
      error: { message: 'the disk is gone' },
    });
  });

  const FAULTS = [
    ['a rejection', "void Promise.reject(new Error('no connection'));"],
    ['an exception', "setImmediate(() => { throw new Error('no connection'); });"],
  ] as const;
  test.each(sampleOf(FAULTS, 2))('%s that nobody caught comes meanwhile', async (_what, fault) => {
    const ended = await endOf({ close: `${fault} await new Promise(() => undefined);` });
    expect(ended.code).toBe(1);
    expect(lastOf(ended)).toMatchObject({
      level: 'error',
      msg: 'an error interrupted the shutdown',
      closing: 'the workspaces',
      error: { message: 'no connection' },
    });
  });
});

test('a second signal ends at once, with the code that shells know, however long the end takes', async () => {
  // A second signal within a moment is a copy of the first: npm passes on a signal that reached the daemon too.
  const again = "setInterval(() => process.kill(process.pid, 'SIGTERM'), 100);";
  expect(await endOf({ close: `${again} await new Promise(() => undefined);` })).toMatchObject({ code: 143 });
});

test('a configuration that cannot be read again on SIGHUP ends nothing', async () => {
  const work = "process.kill(process.pid, 'SIGHUP'); await new Promise((go) => setTimeout(go, 50));";
  const ended = await endOf({ close: 'return', work });
  expect(ended.code).toBe(0);
  expect(ended.stderr).toContain('the configuration could not be reloaded');
});
