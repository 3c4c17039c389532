import { asSyncError, CODES, type SyncError } from '../model/errors.ts';
import { asTyped } from '../platform/lib/own-program.ts';
import { explainByBuilds } from './builds.ts';
import { safeOutput } from './words.ts';

/** Writes to standard error, scrubbed by the caller's `scrub`; data goes to standard output. */
export function reportError(thrown: unknown, scrub: (text: string) => string): number {
  const error = explainByBuilds(asSyncError(thrown));
  const lines = [`worksync: ${error.message}`, `  remedy: ${error.hint}`, `  code:   ${error.code}`];
  process.stderr.write(`${safeOutput(scrub(asTyped(lines.join('\n'))))}\n`);
  return exitOf(error);
}

/** The exit code of a command that this error ends. */
export function exitOf({ code }: SyncError): number {
  const entry = CODES[code];
  return 'exit' in entry ? entry.exit : 1;
}
