import { fileReads } from '../platform/lib/regular-files.ts';

/** The exit code that a shell reports for a program that SIGPIPE ended. */
const READER_GONE = 141;

let outlivesReaders = false;

/**
 * Ends a command quietly when the reader of its output closes the pipe (`worksync prs list | head`), as SIGPIPE ends other programs.
 * A closed terminal sends SIGHUP, and a command that ignores this signal goes on.
 */
export function endWithReaders(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
      if (error.code === 'EPIPE' && !outlivesReaders) process.exit(READER_GONE);
    });
  }
}

/**
 * Ends the process even if a read of a file never ends. Node joins its threads before it exits, so only a signal ends it then.
 * Call it once.
 */
export function endDespiteReads(): void {
  process.on('exit', () => {
    if (!fileReads.isUnderWay()) return;
    process.removeAllListeners('SIGTERM');
    process.kill(process.pid, 'SIGTERM');
    // The first process of a container is immune to its own signals.
    process.abort();
  });
}

/** Keeps the process running when the reader of its output is gone, as a service needs it. */
export function outliveReaders(): void {
  outlivesReaders = true;
}

/** Ends the process after its output was written. A pipe takes 64 KiB at once, and `process.exit` drops the rest. */
export async function endProcess(code: number): Promise<never> {
  await readyToEnd();
  process.exit(code);
}

/**
 * Resolves when all output has left the process, or its reader is gone.
 *
 * @returns false if a read of a file never ends
 */
export async function readyToEnd(): Promise<boolean> {
  for (const stream of [process.stdout, process.stderr])
    await new Promise<void>((resolve) => {
      stream.write('', () => resolve());
    });
  await fileReads.close();
  return !fileReads.isUnderWay();
}
