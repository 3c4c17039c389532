import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import type { Command } from 'commander';
import { vi } from 'vitest';
import { main, programOf } from '../../../src/cli/program.ts';
import { setPlaceFlags } from '../../../src/platform/lib/own-program.ts';
import { createScrubber } from '../../../src/platform/observe/scrubber.ts';

export interface CommandEnded {
  readonly code: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  json(): ReturnType<JSON['parse']>[];
}

/**
 * Returns the standard error of a command without the lines about waiting: whether they are printed depends on real time, and so
 * on the load of the machine.
 */
export function complaintsOf({ stderr }: { readonly stderr: string }): string {
  return stderr.replace(/^worksync: .*[Ww]aiting for .*at most .*\n/gm, '');
}

/**
 * Runs one command line in this process; each opens and closes the data folder for itself. One at a time. `run` only where it cannot
 * start. Its log does not appear in the result.
 */
export async function commandLine(...args: readonly string[]): Promise<CommandEnded> {
  const removeListeners = watchListeners();
  const said = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      said[name] += String(text);
      if (name === 'stderr') typed?.(String(text));
      return true;
    }),
  );
  try {
    const code = await main(['node', 'worksync', ...args], 'test', createScrubber());
    const { stdout, stderr } = said;
    const lines = () => stdout.split('\n').filter((line) => line !== '');
    return { code, stdout, stderr, json: () => lines().map((line) => JSON.parse(line)) };
  } finally {
    setPlaceFlags([]);
    for (const spy of spies) spy.mockRestore();
    removeListeners();
  }
}

/** Returns a function that removes the listeners that the process got meanwhile: those of `run` wait for signals and faults. */
function watchListeners(): () => void {
  const before = new Map(process.eventNames().map((event) => [event, process.rawListeners(event)]));
  return () => {
    for (const event of process.eventNames())
      for (const listener of process.rawListeners(event))
        if (!before.get(event)?.includes(listener)) process.removeListener(event, listener as () => void);
  };
}

/**
 * Runs a command line on a terminal, where a person types one answer after each question, and Ctrl-C if there is none left. Throws if
 * an answer is left.
 */
export async function onTerminal(answers: readonly string[], ...args: string[]): Promise<CommandEnded> {
  const left = [...answers];
  const input = Object.assign(new PassThrough(), { isTTY: true as const });
  const stdin = vi.spyOn(process, 'stdin', 'get').mockReturnValue(input as never);
  typed = (text) => {
    if (stripVTControlCharacters(text).endsWith(': ')) setImmediate(() => input.write(`${left.shift() ?? '\x03'}\n`));
  };
  try {
    const ended = await commandLine(...args);
    if (left.length > 0) throw new Error(`nobody asked for ${left.join(', ')}:\n${ended.stderr}`);
    return { ...ended, stderr: stripVTControlCharacters(ended.stderr) };
  } finally {
    typed = undefined;
    stdin.mockRestore();
  }
}

/** Called with each text that a command writes to standard error. */
let typed: ((text: string) => void) | undefined;

/** A command that does something: no group. */
export interface Leaf {
  readonly path: readonly string[];
  readonly command: Command;
}

export async function allCommands(): Promise<readonly Leaf[]> {
  return leavesOf(await programOf('completion', { version: 'test', scrubber: createScrubber() }, () => undefined), []);
}

function leavesOf(command: Command, path: readonly string[]): Leaf[] {
  const below = command.commands.filter((each) => each.name() !== 'help');
  return below.length === 0 ? [{ path, command }] : below.flatMap((each) => leavesOf(each, [...path, each.name()]));
}
