import { type Clock, type Random, systemRandom } from '../../../src/platform/lib/clock.ts';
import { createScheduler, type Job, type RunMemory, type Timetable } from '../../../src/platform/lib/scheduler.ts';
import { silentLogger } from '../../../src/platform/lib/telemetry.ts';

/** Remembers last runs as long as the test keeps it: give it to the next timetable, as a restart would. */
export function createRunMemory(runs: Map<string, number> = new Map()): RunMemory & { runs: Map<string, number> } {
  const memory = {
    runs,
    read: async () => new Map(memory.runs),
    replace: async (next: ReadonlyMap<string, number>) => void (memory.runs = new Map(next)),
    note: async (job: string, at: number) => void memory.runs.set(job, at),
  };
  return memory;
}

/** Intervals have their exact length, and a job that never ran comes first after half of it. */
export const EVEN: Random = { ...systemRandom(), float: () => 0.5 };

export function startJobs(jobs: readonly Job[], clock: Clock, memory: RunMemory = createRunMemory()): Timetable {
  const timetable = createScheduler({ clock, random: EVEN }).open(jobs, memory, silentLogger);
  timetable.start();
  return timetable;
}
