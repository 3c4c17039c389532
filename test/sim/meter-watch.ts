import type { Labels, Meter } from '../../src/platform/lib/meter.ts';
import type { Metrics } from '../../src/platform/observe/metrics.ts';

/** What all processes of a run have counted. */
export interface Counts {
  /** Of this name, and of those labels that are given. */
  of(name: string, labels?: Labels): number;
  /** All that was counted: by name and labels, in order. */
  all(): readonly (readonly [string, number])[];
}

interface Counted {
  readonly name: string;
  readonly labels: Labels;
  readonly by: number;
}

/** The same metrics, and what is counted by them from now on. */
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
