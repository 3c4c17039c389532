import { describeBuild } from '../model/build.ts';
import { asSyncError, CODES, SyncError } from '../model/errors.ts';
import { asTyped, programVersion } from '../platform/lib/own-program.ts';
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

/** The build of the process that answered this command last, if it differs from that of the command. */
let otherBuild: string | undefined;

/** @param build as the daemon announced it; absent: a daemon from before it announced any */
export function noteBuild(build = 'of an earlier version'): void {
  otherBuild = build === describeBuild(programVersion()) ? undefined : build;
}

/** @param version of the replica whose answer the daemon forwarded */
export function noteForwardedVersion(version: string): void {
  otherBuild = version === programVersion() ? undefined : version;
}

/** Names both builds; undefined if they are the same, or no daemon was asked. */
export function differingBuilds(): string | undefined {
  return otherBuild && `the daemon is ${otherBuild}, this command ${describeBuild(programVersion())}`;
}

/** Explains an unexpected error by the other version of the daemon, whose answers this version may not understand. */
function explainByBuilds(error: SyncError): SyncError {
  const builds = differingBuilds();
  if (builds === undefined || error.code !== 'internal') return error;
  return new SyncError('answer_malformed', `an answer of the daemon cannot be shown: ${builds}`, {
    cause: error,
    hint: 'Run the command of the version that the daemon runs, or finish the upgrade.',
  });
}
