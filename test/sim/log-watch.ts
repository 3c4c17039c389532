import { asSyncError } from '../../src/model/errors/sync-error.ts';
import type { LogFields, Logger } from '../../src/platform/lib/logger.ts';
import { type Life, ProcessEnded } from './life.ts';

interface LogWatch {
  readonly tell: (fault: string) => void;
  readonly isQuiet: () => boolean;
  /** Of a delivery that nobody can read people are told, by its key. */
  readonly onWarned: (key: string) => void;
  /** Whatever is said, but for what only looks for faults. */
  readonly onSaid?: ((text: string) => void) | undefined;
}

/** A log that nobody reads but for faults of the program itself: whatever happens around it, it must have a name for it. */
export function watchedLog(life: Life, { tell, isQuiet, onWarned, onSaid }: LogWatch): Logger {
  const look = ({ error, err = error }: LogFields, message: string) => {
    if (err === undefined || !life.isAlive() || isEndOf(err)) return;
    const { code, message: text } = asSyncError(err);
    // Where nothing disturbs it, a process works on what is its own alone.
    const isFault = code === 'internal' || (code === 'lease_lost' && isQuiet());
    if (isFault) tell(`${life.name} logs "${message}": ${text}`);
  };
  const warn = (fields: LogFields, message: string) => {
    if (message === 'delivery quarantined' && life.isAlive()) onWarned(String(fields['key']));
    look(fields, message);
  };
  const saying =
    (level: string, hear: Logger['info']): Logger['info'] =>
    (fields, message) => {
      if (life.isAlive()) onSaid?.(`${level} ${message}`);
      hear(fields, message);
    };
  const log: Logger = {
    debug: look,
    info: saying('info', look),
    warn: saying('warn', warn),
    error: saying('error', look),
    child: () => log,
  };
  return log;
}

function isEndOf(error: unknown): boolean {
  return error instanceof ProcessEnded || (error instanceof Error && isEndOf(error.cause));
}
