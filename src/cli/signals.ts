import closeWithGrace from 'close-with-grace';
import { type Cancel, type Clock, keepAlive } from '../platform/lib/clock.ts';
import type { Logger } from '../platform/lib/telemetry.ts';
import { endProcess, outliveReaders, readyToEnd } from './ending.ts';

/** Longest orderly end, milliseconds: container engines kill after 10 s. */
const LONGEST_END = 8_000;
/** Milliseconds within which a second signal counts as the first one: Ctrl-C reaches npm and the daemon, and npm forwards it. */
const SAME_SIGNAL = 500;

/** Signals that close in order, each with the exit code of a second one, which ends at once. */
const ENDING = { SIGINT: 130, SIGTERM: 143, SIGQUIT: 131 } as const;
const SIGNALS = Object.keys(ENDING) as (keyof typeof ENDING)[];
/** Signals whose default would end the process. */
const IGNORED = ['SIGUSR2'] as const;

/** Signals on which close-with-grace would close in order: a crash stays a crash. */
const OTHERS = ['SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGSEGV'] as const;

/** @param isStored whether everything that must outlive the process is stored by now */
type ReportStep = (step: string, isStored: boolean) => void;

interface Ending {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Resolves when everything is closed. Reports each step before it begins. */
  close(report: ReportStep): Promise<void>;
  readonly onSignal?: () => void;
  /** Reads the configuration again, where that is possible. */
  reload?(): Promise<void>;
}

/** Ends the process on a signal while there is nothing to close. Without a listener the first process of a container ignores signals. */
export function endAtOnceOnSignals(): Cancel {
  const listeners = SIGNALS.map((signal) => [signal, () => void endProcess(ENDING[signal])] as const);
  for (const [signal, end] of listeners) process.once(signal, end);
  return () => {
    for (const [signal, end] of listeners) process.off(signal, end);
  };
}

/**
 * SIGTERM, SIGINT and SIGQUIT close in order and end with 0; a second one ends at once. SIGHUP reads the configuration again.
 * SIGUSR2 is logged and ignored. An uncaught fault closes in order and ends with 1. A shutdown that fails or meets another fault
 * is logged, and ends with 1. A shutdown that takes too long is logged too; it ends with 0 if everything that must outlive the
 * process is stored by then, otherwise with 1. The process survives a closed output.
 */
export function endOnSignals({ clock, logger, close, onSignal, reload }: Ending): void {
  outliveReaders();
  let since: number | undefined;
  const skip = [...SIGNALS, 'SIGHUP' as const, ...IGNORED, ...OTHERS];
  let closing = 'nothing yet';
  let isStored = false;
  const report: ReportStep = (step, stored) => {
    closing = step;
    isStored = stored;
  };
  function endLate(hasFailed: boolean): void {
    const late = { closing, stored: isStored, waited: LONGEST_END };
    logger[isStored ? 'warn' : 'error'](late, 'the shutdown timed out before everything was closed');
    process.exit(isStored && !hasFailed ? 0 : 1);
  }
  const onSecondError = (error: unknown) => logger.error({ closing, error }, 'an error interrupted the shutdown');
  const grace = closeWithGrace({ delay: false, logger: false, skip, onSecondError }, async ({ err }) => {
    if (err) logger.error({ error: err }, 'the process shuts down because of an error');
    keepAlive();
    clock.after(LONGEST_END, () => endLate(err !== undefined));
    try {
      await close(report);
      report('the output', true);
      if (!(await readyToEnd())) logger.warn({}, 'a file system does not answer, so a signal ends the process');
    } catch (error) {
      logger.error({ error }, 'some parts could not be closed cleanly');
      throw error;
    }
  });
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (since !== undefined && clock.monotonic() - since < SAME_SIGNAL) return;
      if (since !== undefined) process.exit(ENDING[signal]);
      since = clock.monotonic();
      logger.info({ signal }, 'the process shuts down');
      onSignal?.();
      grace.close();
    });
  }
  process.on('SIGHUP', (signal) => {
    if (!reload) return logger.warn({ signal }, 'the signal is ignored');
    logger.info({ signal }, 'the configuration is being reloaded');
    reload().catch((error: unknown) => logger.error({ error }, 'the configuration could not be reloaded'));
  });
  for (const signal of IGNORED) process.on(signal, () => logger.warn({ signal }, 'the signal is ignored'));
}
