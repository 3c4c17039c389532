import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/** Milliseconds; ends what hangs. */
const LONGEST_COMMAND = 300_000;

/** The variables that the commands get: none that configures worksync, and no program of this checkout in the path. */
const KEPT = /^(?:HOME|LANG|PATH|TERM|TMPDIR|(?:no|https?)_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR))$/i;

/** Runs commands in one folder, as a person types them. */
export interface Terminal {
  /** Runs a command to its end. Resolves with both outputs, errors last; rejects unless the exit code is the expected one. */
  run(command: string, expected?: number): Promise<string>;
  /** Starts a command that runs until Ctrl-C, on a terminal of its own. */
  start(command: string): Program;
  /** Ends all programs that are still running. Resolves when they have ended. */
  close(): Promise<void>;
}

export interface Program {
  /** Resolves with everything printed so far, once it contains the text. */
  prints(text: string): Promise<string>;
  /** Presses Ctrl-C. Rejects unless the exit code is the expected one. */
  interrupt(expected?: number): Promise<void>;
}

/**
 * @param folder where the commands run
 * @param scratch for files of the terminal
 */
export function openTerminal(folder: string, scratch: string, settings: Readonly<Record<string, string>>): Terminal {
  const env = { ...environment(), ...settings };
  const running = new Map<ChildProcess, () => void>();
  let started = 0;

  function follow(child: ChildProcess, end: () => void): Promise<number | null> {
    running.set(child, end);
    const timer = setTimeout(end, LONGEST_COMMAND);
    return new Promise((resolve, reject) => {
      child.once('error', (error) => {
        running.delete(child);
        reject(error);
      });
      child.once('close', (code) => {
        clearTimeout(timer);
        running.delete(child);
        resolve(code);
      });
    });
  }

  return {
    async run(command, expected = 0) {
      // In a group of its own, so that its end reaches what npm starts.
      const child = spawn('sh', ['-c', command], {
        cwd: folder,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
      });
      const [out, errors] = [textOf(child.stdout), textOf(child.stderr)];
      const code = await follow(child, () => endGroup(child.pid));
      const printed = `${out()}${errors()}`;
      if (code !== expected) throw new Error(`${command}: exit code ${code}\n${printed}`);
      return printed;
    },
    start(command) {
      started += 1;
      const leader = join(scratch, `leader-${started}`);
      // Ctrl-C reaches this shell too; it goes on, for the exit code of the command.
      const typed = `trap : INT; echo $$ > '${leader}'; ${command}`;
      const child = spawn('script', ['--quiet', '--return', '--command', typed, '/dev/null'], { cwd: folder, env });
      const printed = textOf(child.stdout);
      const ended = follow(child, () => {
        endGroup(existsSync(leader) ? Number(readFileSync(leader, 'utf8')) : undefined);
        child.kill();
      });
      return {
        prints: (text) =>
          new Promise((resolve, reject) => {
            const read = () => printed().includes(text) && resolve(printed());
            child.stdout.on('data', read);
            read();
            const refuse = (code: number | null | Error) =>
              reject(new Error(`${command} ended (${String(code)}) before "${text}"\n${printed()}`));
            void ended.then(refuse, refuse);
          }),
        async interrupt(expected = 0) {
          child.stdin.write('\x03');
          const code = await ended;
          if (code !== expected) throw new Error(`${command}: exit code ${code} after Ctrl-C\n${printed()}`);
        },
      };
    },
    async close() {
      for (const end of running.values()) end();
      await Promise.all(Array.from(running.keys(), (child) => once(child, 'close')));
    },
  };
}

/** Reads a stream as plain text: without the colours and the line ends of a terminal. */
function textOf(stream: NodeJS.ReadableStream): () => string {
  let text = '';
  stream.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  return () => stripVTControlCharacters(text).replaceAll('\r', '');
}

function environment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) => KEPT.test(name)) as [string, string][];
  const path = (process.env['PATH'] ?? '').split(':').filter((each) => !each.includes('node_modules'));
  // As `.ci/run` installs: the lock file was reviewed, whatever the age of its versions.
  return { ...Object.fromEntries(kept), PATH: path.join(':'), npm_config_min_release_age: '0' };
}

/** @param leader id of the process that leads the group */
function endGroup(leader: number | undefined): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, 'SIGTERM');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
