import { fileReads } from '../platform/lib/file-reads.ts';

/** The exit code that a shell reports for a program that SIGPIPE ended. */
const READER_GONE = 141;

let outlivesReaders = false;

/**
 * The reader of the output may close it at any time (`worksync prs list | head`). Then a command ends quietly, as SIGPIPE ends other
 * programs. A terminal that is closed sends SIGHUP; a command that ignores it goes on.
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
 * Ends the process although a read of a file never ends. Node joins its threads before it exits, so only a signal ends it then.
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

/** For a service: it works on when nobody reads its output any more. */
export function outliveReaders(): void {
  outlivesReaders = true;
}

/** Ends the process after its output was written. A pipe takes 64 KiB at once, and `process.exit` drops what it has not taken. */
export async function endProcess(code: number): Promise<never> {
  await readyToEnd();
  process.exit(code);
}

/**
 * Resolves when everything printed so far has left the process, or when nobody reads it.
 *
 * @returns whether no read of a file is left
 */
export async function readyToEnd(): Promise<boolean> {
  for (const stream of [process.stdout, process.stderr])
    await new Promise<void>((resolve) => {
      stream.write('', () => resolve());
    });
  await fileReads.close();
  return !fileReads.isUnderWay();
}
