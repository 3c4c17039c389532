import { asSyncError } from '../../src/model/errors.ts';
import type { Labels, LogFields, Logger, Meter } from '../../src/platform/lib/telemetry.ts';
import type { Metrics } from '../../src/platform/observe/metrics.ts';
import { type Life, ProcessEnded } from './life.ts';

export function watchedMetrics(metrics: Metrics) {
  const all: { readonly name: string; readonly labels: Labels; readonly by: number }[] = [];
  const watched = (meter: Meter): Meter => ({
    ...meter,
    count(name, labels = {}, by = 1) {
      all.push({ name, labels, by });
      meter.count(name, labels, by);
    },
  });
  return {
    metrics: {
      ...metrics,
      meter: watched(metrics.meter),
      forWorkspace: (workspace) => watched(metrics.forWorkspace(workspace)),
    } satisfies Metrics,
    counts: {
      of: (name: string) => all.reduce((sum, each) => sum + (each.name === name ? each.by : 0), 0),
      /** All that was counted: by name and labels, in order. */
      all: () =>
        [...Map.groupBy(all, ({ name, labels }) => `${name} ${JSON.stringify(labels)}`)]
          .map(([name, each]) => [name, each.reduce((sum, { by }) => sum + by, 0)] as const)
          .sort(([one], [other]) => (one < other ? -1 : 1)),
    },
  };
}

interface LogWatch {
  readonly tell: (fault: string) => void;
  readonly isQuiet: () => boolean;
  /** Called with the key of an unreadable delivery of which the log warns. */
  readonly onWarned: (key: string) => void;
  /** All lines of the log, except those of a search for faults. */
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
