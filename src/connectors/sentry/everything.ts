import type { Connection } from '../connector.ts';
import { rowNames } from '../kit/items.ts';
import { omitUndefined, writeJson } from '../kit/payload.ts';
import { isRefusedList } from '../kit/scope.ts';
import type { TrackerSource } from '../kit/tracker.ts';
import { emptyPageFlag, firstWalkStart } from '../kit/walk.ts';
import type { Project } from './schema.ts';

/** Before the name of a project: all its issues, walked seldom. */
const EVERYTHING = 'all:';
/** Resolving and assigning change no time, so only a complete read finds what no webhook reported. */
const EVERYTHING_AFTER = 6 * 60 * 60_000;

const { list: event } = rowNames('issues');

/** Each project has two walks: of recently seen issues, and at long intervals of all. */
export function withEverything(
  connection: Connection,
  container: TrackerSource<Project>['container'],
  list: TrackerSource<Project>['list'],
): Partial<Connection> {
  /** The watermark is when the last such walk began. */
  const pollEverything: Connection['poll'] = async (position, signal) => {
    const { unit, watermark, startedAt, page } = position;
    const isDue = watermark === undefined || Date.parse(startedAt) - Date.parse(watermark) >= EVERYTHING_AFTER;
    if (page === undefined && !isDue) return { outcome: 'unchanged' };
    const project = unit.slice(EVERYTHING.length);
    const selection = { items: 'ids', containerId: (await container(project, signal)).id } as const;
    const listed = await list({ unit: project, selection, page, use: 'poll' }, signal);
    const { found, next, answer } = listed;
    const newest = firstWalkStart(position, answer);
    return {
      outcome: 'page',
      event,
      body: writeJson(found),
      newest,
      ...omitUndefined({ next }),
      ...emptyPageFlag(listed),
    };
  };

  return {
    async units(signal) {
      const projects = await connection.units(signal);
      const readable = projects.filter((project) => !isRefusedList(project));
      return [...projects, ...readable.map((project) => EVERYTHING + project)];
    },
    poll: (position, signal) =>
      position.unit.startsWith(EVERYTHING) ? pollEverything(position, signal) : connection.poll(position, signal),
    /** The second unit of a project adds nothing to its backfill, and speaks for nothing in a sweep. */
    history: async (position, signal) =>
      position.unit.startsWith(EVERYTHING)
        ? { event, body: writeJson([]) }
        : ((await connection.history?.(position, signal)) ?? { event, body: writeJson([]) }),
    sweep: async (unit, page, signal) =>
      (unit.startsWith(EVERYTHING) ? undefined : await connection.sweep?.(unit, page, signal)) ?? NOTHING,
  };
}

const NOTHING = { keys: [], containers: [] };
