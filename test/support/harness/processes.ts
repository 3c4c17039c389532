import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';

export const TOP = join(import.meta.dirname, '../../..');

/** For NODE_COMPILE_CACHE, as `npm start` has it: a process that finds its code compiled never loads what strips types. */
export const COMPILE_CACHE = join(TOP, 'node_modules/.cache/worksync');

export const PATIENT_CLOCK = join(import.meta.dirname, '../fakes/patient-clock.ts');

export interface Ended {
  /** Null where a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly child: ChildProcess;
  /** Resolves with everything said so far, once standard output holds the text; rejects when the process ends before. */
  says(text: string): Promise<string>;
  end(signal?: NodeJS.Signals): Promise<Ended>;
  readonly ended: Promise<Ended>;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Another user than that of the tests, who must be root then. */
  readonly uid?: number;
  readonly gid?: number;
  /** Whether something is to be typed in; otherwise its standard input is empty. */
  readonly isTyped?: boolean;
}

/** Starts `worksync run` with `fakes/patient-clock.ts`. */
export function startPatientDaemon(args: readonly string[]): Running {
  return startNode(['--import', PATIENT_CLOCK, 'src/main.ts', 'run', ...args]);
}

/** The variables that a process may take from the tests; none that would configure worksync. */
function baseEnvironment(): Record<string, string> {
  const { PATH = '', HOME = '', TMPDIR } = process.env;
  return { PATH, HOME, NODE_COMPILE_CACHE: COMPILE_CACHE, ...(TMPDIR === undefined ? {} : { TMPDIR }) };
}

export function startWorksync(args: readonly string[], options: StartOptions = {}): Running {
  return startNode(['src/main.ts', ...args], options);
}

export function worksync(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
  return startWorksync(args, options).ended;
}

export function startNode(args: readonly string[], options: StartOptions = {}): Running {
  return startProgram(process.execPath, args, options);
}

export function startProgram(
  program: string,
  args: readonly string[],
  { env = {}, cwd = TOP, uid, gid, isTyped }: StartOptions = {},
): Running {
  const child = spawn(program, args, {
    cwd,
    env: { ...baseEnvironment(), ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(uid !== undefined && { uid }),
    ...(gid !== undefined && { gid }),
  });
  if (!isTyped) child.stdin.end();
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
  return {
    child,
    ended,
    says: (text) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (stdout.includes(text)) resolve(stdout);
        };
        look();
        child.stdout.on('data', look);
        void ended.then(({ code }) => {
          reject(new Error(`ended with ${code} before it said "${text}"\n${stdout}\n${stderr}`));
        });
      }),
    end(signal = 'SIGTERM') {
      child.kill(signal);
      return ended;
    },
  };
}
