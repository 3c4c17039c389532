import { asSyncError } from '../../src/model/errors.ts';
import type { Labels, LogFields, Logger, Meter } from '../../src/platform/lib/telemetry.ts';
import type { Metrics } from '../../src/platform/observe/metrics.ts';
import { type Life, ProcessEnded } from './life.ts';

/** The counters of all processes of a run. */
export interface Counts {
  /** The sum over all counters with this name and these labels. */
  of(name: string, labels?: Labels): number;
  /** All that was counted: by name and labels, in order. */
  all(): readonly (readonly [string, number])[];
}

interface Counted {
  readonly name: string;
  readonly labels: Labels;
  readonly by: number;
}

/** Returns metrics that also count here from now on. */
export function watchedMetrics(metrics: Metrics): { readonly metrics: Metrics; readonly counts: Counts } {
  const all: Counted[] = [];
  const watched = (meter: Meter): Meter => ({
    ...meter,
    count(name, labels = {}, by = 1) {
      all.push({ name, labels, by });
      meter.count(name, labels, by);
    },
  });
  const fits = (each: Counted, name: string, labels: Labels) =>
    each.name === name && Object.entries(labels).every(([label, value]) => each.labels[label] === value);
  return {
    metrics: {
      ...metrics,
      meter: watched(metrics.meter),
      forWorkspace: (workspace) => watched(metrics.forWorkspace(workspace)),
    },
    counts: {
      of: (name, labels = {}) => all.reduce((sum, each) => sum + (fits(each, name, labels) ? each.by : 0), 0),
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
