/** Its reader is gone, or the terminal that it stood on. */
const GONE: ReadonlySet<unknown> = new Set(['EPIPE', 'EIO']);

/**
 * Who reads what the process prints may stop at any time (`npm start | head`, a terminal that is closed). Then nobody sees the
 * rest, and the work goes on: a daemon as long as it would, a command to its end and with its own exit code.
 */
export function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (!GONE.has(error.code)) throw error;
    });
  }
}
