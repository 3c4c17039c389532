import { CODES } from '../errors/codes.ts';
import { asSyncError } from '../errors/sync-error.ts';

/** Writes to standard error, scrubbed by the caller's `scrub`; data goes to standard output. */
export function reportError(thrown: unknown, scrub: (text: string) => string): number {
  const error = asSyncError(thrown);
  const lines = [`worksync: ${error.message}`, `  remedy: ${error.hint}`, `  code:   ${error.code}`];
  process.stderr.write(`${scrub(lines.join('\n'))}\n`);
  const entry = CODES[error.code];
  return 'exit' in entry ? entry.exit : 1;
}
