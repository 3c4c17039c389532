import { Session } from 'node:inspector';
import { isMainThread } from 'node:worker_threads';

/**
 * For `node --import` in a process that runs an instrumented copy of `src` and has an IPC channel. Answers each message with a
 * {@link Trace} of the main thread since the previous message.
 */

export interface Trace {
  /** Numbers of the lines that ran, by file of `src`. */
  readonly lines: Readonly<Record<string, readonly number[]>>;
  /** The files whose functions were called, in order. A file that calls itself counts once. */
  readonly calls: readonly string[];
}

const called: string[] = [];
Object.assign(globalThis, {
  enter: (file: string) => {
    if (called.at(-1) !== file) called.push(file);
  },
});

if (isMainThread && process.send) {
  const sources = new Map<string, string>();
  const session = new Session();
  session.connect();
  session.post('Debugger.enable');
  session.on('Debugger.scriptParsed', ({ params: { scriptId, url } }) => {
    if (!url.includes('/src/')) return;
    session.post('Debugger.getScriptSource', { scriptId }, (error, { scriptSource }) => {
      if (!error) sources.set(url, scriptSource);
    });
  });
  session.post('Profiler.enable');
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  process.on('message', () => {
    session.post('Profiler.takePreciseCoverage', (error, coverage) => {
      if (error) throw error;
      const lines: Record<string, number[]> = {};
      for (const { url, functions } of coverage.result) {
        const source = sources.get(url);
        const ran = source === undefined ? [] : linesRun(source, functions);
        if (ran.length > 0) lines[url.slice(url.indexOf('/src/') + '/src/'.length)] = ran;
      }
      process.send?.({ lines, calls: called.splice(0) } satisfies Trace);
    });
  });
  // The daemon ends although the channel is open.
  process.channel?.unref();
}

interface CoveredFunction {
  readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[];
}

/** Blank lines and comments are left out. */
function linesRun(source: string, functions: readonly CoveredFunction[]): number[] {
  const ran = new Uint8Array(source.length);
  const size = ({ ranges: [whole] }: CoveredFunction) => whole!.endOffset - whole!.startOffset;
  for (const { ranges } of functions.toSorted((a, b) => size(b) - size(a))) {
    for (const { startOffset, endOffset, count } of ranges) ran.fill(Math.min(count, 1), startOffset, endOffset);
  }
  let offset = 0;
  return source.split('\n').flatMap((line, index) => {
    const first = offset + line.search(/\S/);
    offset += line.length + 1;
    return /^\s*(?:$|\/\/|\/?\*)/.test(line) || ran[first] === 0 ? [] : [index + 1];
  });
}
