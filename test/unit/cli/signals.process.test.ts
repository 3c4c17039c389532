import { describe, expect, test } from 'vitest';
import { type Ended, startNode } from '../../support/harness/processes.ts';

/** A process that ends on signals, closes as the first text says, and does what the second one says. */
async function endOf(close: string, work = ''): Promise<Ended> {
  const program = `
    import { endOnSignals } from './src/cli/signals.ts';
    import { systemClock } from './src/platform/lib/clock.ts';
    import { createLogger } from './src/platform/observe/pino-logger.ts';
    import { createScrubber } from './src/platform/observe/scrubber.ts';
    const logger = createLogger({ level: 'info', scrubber: createScrubber() });
    endOnSignals({
      clock: systemClock(),
      logger,
      async close(tell) { tell('the workspaces'); ${close} },
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

describe('an end that is not in order says why, and ends with 1:', () => {
  test('something cannot be closed', async () => {
    const ended = await endOf("throw new Error('the disk is gone')");
    expect(ended.code).toBe(1);
    expect(lastOf(ended)).toMatchObject({
      level: 'error',
      msg: 'some parts could not be closed cleanly',
      error: { message: 'the disk is gone' },
    });
  });

  test('it takes longer than it may', async () => {
    const ended = await endOf('await new Promise(() => undefined)');
    expect(ended.code).toBe(1);
    expect(lastOf(ended)).toMatchObject({
      level: 'error',
      msg: 'the shutdown timed out before everything was closed',
      closing: 'the workspaces',
      waited: 8_000,
    });
  });

  test.each([
    ['a rejection', "void Promise.reject(new Error('no connection'));"],
    ['an exception', "setImmediate(() => { throw new Error('no connection'); });"],
  ])('%s that nobody caught comes meanwhile', async (_what, fault) => {
    const ended = await endOf(`${fault} await new Promise(() => undefined);`);
    expect(ended.code).toBe(1);
    expect(lastOf(ended)).toMatchObject({
      level: 'error',
      msg: 'an error interrupted the shutdown',
      closing: 'the workspaces',
      error: { message: 'no connection' },
    });
  });

  test('a fault that nobody caught, and what cannot be closed after it', async () => {
    const fault =
      "process.on('exit', () => console.log('up')); setImmediate(() => { throw new Error('a fault of ours'); });";
    const ended = await endOf("throw new Error('the disk is gone')", `${fault} await new Promise(() => undefined);`);
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain('a fault of ours');
    expect(lastOf(ended)).toMatchObject({ error: { message: 'the disk is gone' } });
  });
});

test('a configuration that cannot be read again on SIGHUP ends nothing', async () => {
  const ended = await endOf(
    'return',
    "process.kill(process.pid, 'SIGHUP'); await new Promise((go) => setTimeout(go, 50));",
  );
  expect(ended.code).toBe(0);
  expect(ended.stderr).toContain('the configuration could not be reloaded');
});
