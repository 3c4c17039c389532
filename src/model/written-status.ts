import type { WrittenFields } from './synced-fields.ts';

/** The last status that worksync wrote to a task, and the facts that it keeps about changes by people, also of synced fields. `known` of a task update. */
export interface WrittenStatus extends WrittenFields {
  /** The last status that worksync wrote and saw confirmed, if nobody has changed it since. */
  readonly status?: string | undefined;
  /** The rule by which worksync wrote it, for people. Absent: a person had set the status, and the rules want the same. */
  readonly rule?: string | undefined;
  /** The status before the first move by worksync. */
  readonly previous?: string | undefined;
  /** A person took the task out of a final status then: what was finished before, finishes nothing. Epoch milliseconds. */
  readonly epoch?: number | undefined;
  /** When worksync moved the task, in the last day; epoch milliseconds. */
  readonly moves?: readonly number[] | undefined;
  /** When others changed a status back within two minutes after worksync had written it, in the last day; epoch milliseconds. */
  readonly contested?: readonly number[] | undefined;
  /** Labels that worksync added (`+name`) and removed (`-name`), as long as the conditions of the rules hold. */
  readonly labels?: readonly string[] | undefined;
  /** Why merged work has not finished the task, by the last evaluation: a code of `explain-task.ts`. */
  readonly unfinished?: string | undefined;
}

const DAY = 86_400_000;

function inLastDay(times: readonly number[] = [], now: number): readonly number[] {
  return times.filter((at) => at > now - DAY);
}

/** Returns the state after an update of a task was answered, or after a read showed that it had arrived. Idempotent. */
export function afterUpdate(
  written: WrittenStatus,
  update: {
    readonly status?: string | undefined;
    readonly from: string;
    readonly addLabels?: readonly string[] | undefined;
    readonly removeLabels?: readonly string[] | undefined;
    readonly rule?: string | undefined;
  },
  now: number,
): WrittenStatus {
  const { addLabels = [], removeLabels = [] } = update;
  const changed = [...addLabels.map((label) => `+${label}`), ...removeLabels.map((label) => `-${label}`)];
  const labels = [...new Set([...(written.labels ?? []), ...changed])];
  const move = update.status !== undefined &&
    update.status !== written.status && {
      status: update.status,
      rule: update.rule,
      previous: written.status === undefined ? update.from : written.previous,
      moves: [...inLastDay(written.moves, now), now],
    };
  return { ...written, ...move, ...(labels.length > 0 && { labels }) };
}

/** How soon after a write a change back by others counts as a contest, milliseconds. */
const CONTESTED_WITHIN = 120_000;

/**
 * Returns what is known when a status is observed.
 *
 * @param observed the status, when it was set at the latest, whether it was taken out of a final status, and whether it ranks lower
 *   than the written one
 */
export function afterObservation(
  written: WrittenStatus,
  observed: {
    readonly status: string;
    readonly setBefore: number;
    readonly isReopened: boolean;
    readonly isLower: boolean;
  },
  now: number,
): WrittenStatus {
  const { status, setBefore, isReopened, isLower } = observed;
  if (written.status === status) return written;
  const lastMove = written.moves?.at(-1) ?? Number.NEGATIVE_INFINITY;
  const isContest = isLower && setBefore - lastMove <= CONTESTED_WITHIN;
  const contested = inLastDay([...(written.contested ?? []), ...(isContest ? [setBefore] : [])], now);
  const epoch = isReopened ? Math.max(written.epoch ?? 0, setBefore) : written.epoch;
  const { status: _, rule: _rule, ...others } = written;
  return {
    ...others,
    ...(epoch !== undefined && { epoch }),
    ...(contested.length > 0 && { contested }),
  };
}

/** Contests of one task in a day, and moves of it, after which worksync leaves it. A task that QA rejects twice moves ten times. */
const MAX_CONTESTED = 3;
const MAX_MOVES = 12;

/** The number of contests in a day after which worksync changes no status in the workspace. */
export const MAX_CONTESTED_OF_WORKSPACE = 20;

/** Returns the latest contests of a workspace in the last day, as many as are needed to recognise a fight. */
export function contestsInDay(contested: readonly number[], now: number): readonly number[] {
  return inLastDay(contested, now).slice(-MAX_CONTESTED_OF_WORKSPACE);
}

/** Whether another automation moves the task too. */
export function isContested({ moves, contested }: WrittenStatus, now: number): boolean {
  return inLastDay(contested, now).length >= MAX_CONTESTED || inLastDay(moves, now).length >= MAX_MOVES;
}

/**
 * Returns what is known after a person let the rules decide again: a status that a person set counts as one of worksync. A
 * status that is one of worksync already keeps its rule and the status before it.
 */
export function afterRelease(written: WrittenStatus, status: string): WrittenStatus {
  const { moves = [], contested: _contested, ...others } = written;
  if (written.status === status) return { ...others, moves: moves.slice(-1) };
  const { rule: _, ...ofPerson } = others;
  return { ...ofPerson, status, previous: status };
}
