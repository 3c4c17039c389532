import { type Chance, chanceOf, oneOf } from '../bench/quota/references/chance.ts';
import { drawProse, type Prose } from './prose.ts';
import { TROUBLES, type Trouble } from './weather.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export const FORGES = ['github', 'gitlab', 'bitbucket'] as const;
export const TRACKERS = ['jira', 'linear', 'generic'] as const;
export type Forge = (typeof FORGES)[number];
export type TrackerName = (typeof TRACKERS)[number];

const SET_STATUSES = ['planned', 'blocked', 'in_progress', 'completed'] as const;
type SetStatus = (typeof SET_STATUSES)[number];

/** When a webhook is sent, milliseconds after what it tells; and whether it is sent again where nobody took it. */
export interface Hooks {
  readonly delays: readonly number[];
  readonly again: boolean;
  /** An unreadable body is sent first; the readable one follows after this time, milliseconds. */
  readonly repaired?: number;
}

export interface PullChange {
  readonly title?: string;
  /** A task that the title names, by its number; 0: none. */
  readonly names?: number;
  readonly state?: 'open' | 'closed' | 'merged';
  readonly draft?: boolean;
  readonly labels?: readonly string[];
  readonly reviewers?: readonly string[];
  readonly description?: string;
  /** In place of the description. */
  readonly prose?: Prose;
}

/** An event at a moment, milliseconds after the beginning. Each is independent: the others also happen without it. */
export type Happening = Readonly<
  { at: number } & (
    | {
        do: 'pull';
        forge: Forge;
        number: number;
        change: PullChange;
        hooks: Hooks;
      }
    | {
        do: 'issue';
        tracker: TrackerName;
        number: number;
        change: 'open' | 'edited' | 'done' | 'deleted';
        /** As of a pull request. */
        names?: number;
        hooks: Hooks;
      }
    | { do: 'comment'; number: number; hooks: Hooks }
    | { do: 'look' }
    | { do: 'task' }
    | { do: 'finish' | 'remark'; pick: number }
    | { do: 'set-status'; pick: number; status: SetStatus }
    | { do: 'rename'; name: string }
    | { do: 'unlink' | 'link' | 'edit-record'; pick: number }
    | {
        do: 'weather';
        server: string;
        trouble: Trouble;
        share: number;
        for: number;
      }
    | {
        do: 'kill';
        replica: number;
        steps: number;
        back: number;
        reboot: boolean;
      }
    /** At a statement at which none has ended before. */
    | { do: 'kill-at'; replica: number; back: number }
    | { do: 'fail-statements'; share: number; for: number }
    | { do: 'restart' | 'sleep'; replica: number; back: number }
    | { do: 'jump'; replica: number; by: number }
    | { do: 'jump-store'; by: number }
    | { do: 'store-away'; share: number; for: number }
    /** Its answers come late, by so many milliseconds at most. */
    | { do: 'store-slow'; by: number; for: number }
    /** The replica that owns the workspace then. */
    | { do: 'sleep-owner'; back: number }
    | { do: 'others'; requests: number; for: number }
    | { do: 'reload'; visibility: number; poll: number; concurrency: number }
    | { do: 'disk-full'; replica: number; for: number }
    /** Starts a backfill of a forge, which has `pulls` older pull requests. */
    | { do: 'backfill'; forge: Forge; pulls: number }
    | { do: 'pause-backfill'; forge: Forge; for: number }
    | { do: 'backup' }
    | { do: 'restore'; back: number; byHand?: boolean }
  )
>;

export interface Plan {
  readonly seed: number;
  readonly replicas: 1 | 3;
  readonly forges: readonly Forge[];
  readonly trackers: readonly TrackerName[];
  readonly share: number | 'auto';
  readonly events?: boolean;
  /** Whether the daemon writes to Jira which tasks an issue has, and closes it. */
  readonly writeBack?: boolean;
  /** The form of updates of tasks, where rules decide about their statuses; absent: there are no such rules. */
  readonly workflow?: 'whole' | 'fields';
  /** The longest page that servers give until everything is healed; absent: as long as they are asked for. */
  readonly pages?: number;
  /** All that happens, and every timer, comes at a multiple of this, milliseconds: so that much happens at the same moment. */
  readonly grain?: number;
  /** Whether it is known to the line what happens: all messages take the same time, and more is noted. */
  readonly isKnown?: boolean;
  /** Milliseconds until everything is healed. */
  readonly length: number;
  readonly happenings: readonly Happening[];
}

/** One seed says all of it. @param hasLateAnswers false: nothing happens that `lateAnswers` draws */
export function drawPlan(seed: number, hasLateAnswers = true): Plan {
  const chance = chanceOf(seed, 'plan');
  const replicas = chance.happens(0.25) ? 3 : 1;
  const forges = some(chance, FORGES, 1);
  const trackers = some(chance, TRACKERS, 0);
  const length = chance.whole(20, 90) * MINUTE;
  const share = oneOf(chance, [1, 1, 'auto', 0.8] as const);
  const happenings = [
    ...work(chance, { forges, trackers, length }),
    ...people(chance, length),
    ...faults(chance, { replicas, servers: [...forges, ...trackers], length }),
  ];
  if (replicas > 1) happenings.push(...storeAway(chanceOf(seed, 'store'), length));
  if (replicas > 1) happenings.push(...lateLeases(chanceOf(seed, 'leases'), happenings, length));
  happenings.push(...atStatements(chanceOf(seed, 'statements'), replicas, length));
  happenings.push(...restartsAmid(chanceOf(seed, 'restarts'), replicas, happenings));
  happenings.push(...backfills(chanceOf(seed, 'backfills'), forges, length));
  happenings.push(...looks(chanceOf(seed, 'looks'), length));
  if (forges.includes('github')) happenings.push(...comments(chanceOf(seed, 'comments'), length));
  const events = chanceOf(seed, 'events').happens(0.5);
  const writing = chanceOf(seed, 'write-back');
  const writeBack = trackers.includes('jira') && writing.happens(0.7);
  if (writeBack) happenings.push(...underIssues(writing, length));
  const moving = chanceOf(seed, 'workflow');
  const workflow = moving.happens(0.4) ? oneOf(moving, ['whole', 'fields'] as const) : undefined;
  if (workflow) happenings.push(...statusEdits(moving, length));
  if (workflow && replicas === 1 && hasLateAnswers)
    happenings.push(...lateAnswers(chanceOf(seed, 'late-answers'), forges, length));
  const sent = garbled(chanceOf(seed, 'garbled'), byHand(chanceOf(seed, 'by-hand'), happenings));
  const paging = chanceOf(seed, 'pages');
  const pages = paging.happens(0.4) ? paging.whole(2, 12) : undefined;
  return {
    ...{ seed, replicas, forges, trackers, share, events, writeBack, length, happenings: runSequentially(sent) },
    ...(pages !== undefined && { pages }),
    ...(workflow && { workflow }),
    ...grainOf(chanceOf(seed, 'grain')),
  };
}

function grainOf(chance: Chance): Pick<Plan, 'grain'> {
  return chance.happens(0.35) ? { grain: oneOf(chance, [50, 100, 250]) } : {};
}

function runSequentially(happenings: readonly Happening[]): readonly Happening[] {
  return happenings.toSorted((one, other) => one.at - other.at);
}

function some<Each>(chance: Chance, all: readonly Each[], least: number): readonly Each[] {
  const count = chance.whole(least, all.length);
  const drawn = all.map((each) => ({ each, place: chance.float() })).sort((one, other) => one.place - other.place);
  return drawn.slice(0, count).map(({ each }) => each);
}

/** How often something happens, about; each time at a moment of its own. */
function times<Each>(chance: Chance, mean: number, make: () => Each): Each[] {
  return Array.from({ length: chance.geometric(mean) }, make);
}

function hooks(chance: Chance): Hooks {
  const again = chance.happens(0.6);
  if (chance.happens(0.1)) return { delays: [], again };
  const first = chance.happens(0.8) ? chance.whole(50, 2_000) : chance.whole(5_000, 10 * MINUTE);
  return { delays: chance.happens(0.15) ? [first, first + chance.whole(1, 5 * MINUTE)] : [first], again };
}

function work(chance: Chance, { forges, trackers, length }: Pick<Plan, 'forges' | 'trackers' | 'length'>): Happening[] {
  const found: Happening[] = [];
  const pulls = chance.whole(2, 14);
  const isBusy = chance.happens(0.2);
  for (let number = 1; number <= pulls; number++) {
    const forge = oneOf(chance, forges);
    const changes = 1 + chance.geometric(isBusy ? 9 : 3);
    const start = chance.between(0, 0.7) * length;
    let at = start;
    for (let index = 0; index < changes; index++) {
      found.push({ at: Math.ceil(at), do: 'pull', forge, number, change: pullChange(chance), hooks: hooks(chance) });
      at += Math.max(1, chance.happens(0.3) ? chance.whole(1, 1_500) : chance.exponential(length / 12));
      if (at > length) break;
    }
  }
  if (trackers.length === 0) return found;
  for (let number = 1; number <= chance.whole(1, 8); number++) {
    const tracker = oneOf(chance, trackers);
    let at = chance.between(0, 0.7) * length;
    for (let index = 0; index <= chance.geometric(2) && at < length; index++) {
      const change = index === 0 ? 'open' : oneOf(chance, ['edited', 'edited', 'done', 'open', 'deleted'] as const);
      found.push({ at: Math.ceil(at), do: 'issue', tracker, number, change, hooks: hooks(chance) });
      at += Math.max(1, chance.exponential(length / 8));
    }
  }
  return found;
}

function pullChange(chance: Chance): PullChange {
  return {
    ...(chance.happens(0.5) && { names: chance.happens(0.6) ? chance.whole(1, 8) : 0 }),
    ...(chance.happens(0.3) && { state: oneOf(chance, ['open', 'closed', 'merged'] as const) }),
    ...(chance.happens(0.2) && { draft: chance.happens(0.5) }),
    ...(chance.happens(0.3) && { labels: oneOf(chance, [[], ['bug'], ['api', 'bug']]) }),
    ...(chance.happens(0.2) && { reviewers: oneOf(chance, [[], ['ben'], ['ada', 'ben']]) }),
    ...(chance.happens(0.2) && { description: oneOf(chance, ['', 'Words.', 'Other words.']) }),
    ...(chance.happens(0.4) && { prose: drawProse(chance) }),
  };
}

function people(chance: Chance, length: number): Happening[] {
  const at = () => chance.whole(1, length);
  return [
    ...times(chance, 4, () => ({ at: at(), do: 'task' }) as const),
    ...times(chance, 1, () => ({ at: at(), do: 'unlink', pick: chance.whole(0, 99) }) as const),
    ...times(chance, 1, () => ({ at: at(), do: 'link', pick: chance.whole(0, 99) }) as const),
    ...times(chance, 1, () => ({ at: at(), do: 'edit-record', pick: chance.whole(0, 99) }) as const),
  ];
}

function statusEdits(chance: Chance, length: number): Happening[] {
  return times(chance, 3, (): Happening => {
    const status = oneOf(chance, SET_STATUSES);
    return { at: chance.whole(1, length), do: 'set-status', pick: chance.whole(0, 99), status };
  });
}

/**
 * Some tasks get a pull request that soon becomes a draft, and whose labels change every second or two. Meanwhile some answers of
 * the workspace come late, and so begin the commits of reconcile: it applies answers after other deliveries of the same task.
 */
function lateAnswers(chance: Chance, forges: readonly Forge[], length: number): Happening[] {
  const start = chance.whole(Math.floor(0.3 * length), Math.floor(0.8 * length));
  const duration = chance.whole(3, 10) * MINUTE;
  const tasks = Array.from({ length: 6 }, (): Happening => ({ at: chance.whole(1, start), do: 'task' }));
  const changes = [1, 2, 3, 4, 5, 6].flatMap((names) => {
    const forge = oneOf(chance, forges);
    const becomesDraft = chance.whole(2, 6);
    let at = start + chance.whole(0, duration - 30 * SECOND);
    return Array.from({ length: 12 }, (_, index): Happening => {
      const change = index === 0 ? { names } : index === becomesDraft ? { draft: true } : { labels: [`late-${index}`] };
      at += chance.whole(200, 2_500);
      const hooks = { delays: [chance.whole(50, 1_000)], again: true };
      return { at, do: 'pull', forge, number: FIRST_LATE + names, change, hooks };
    });
  });
  const slow = { server: 'workspace.test', trouble: 'slow', share: chance.between(0, 0.2) } as const;
  return [
    ...tasks,
    ...changes,
    { at: start, do: 'store-slow', by: chance.whole(1, 6) * SECOND, for: duration },
    { at: start, do: 'weather', ...slow, for: duration },
  ];
}

/** No other pull requests have numbers from here on. */
const FIRST_LATE = 20;

function looks(chance: Chance, length: number): Happening[] {
  return times(chance, 3, (): Happening => ({ at: chance.whole(1, length), do: 'look' }));
}

function comments(chance: Chance, length: number): Happening[] {
  return times(chance, 3, (): Happening => {
    return { at: chance.whole(1, length), do: 'comment', number: chance.whole(1, 14), hooks: hooks(chance) };
  });
}

/** Edits of people where worksync writes too. */
function underIssues(chance: Chance, length: number): Happening[] {
  const at = () => chance.whole(1, length);
  const issue = (number: number, when: number, change: 'open' | 'edited'): Happening => {
    const names = change === 'edited' ? { names: chance.happens(0.8) ? chance.whole(1, 5) : 0 } : {};
    return { at: when, do: 'issue', tracker: 'jira', number, change, ...names, hooks: hooks(chance) };
  };
  const several = (least: number, most: number, make: () => Happening) =>
    Array.from({ length: chance.whole(least, most) }, make);
  const numbers = [1, 2, 3];
  return [
    ...numbers.map((number) => issue(number, chance.whole(1, Math.floor(length / 3)), 'open')),
    ...several(3, 10, () => issue(oneOf(chance, numbers), at(), chance.happens(0.3) ? 'open' : 'edited')),
    ...several(1, 8, () => ({ at: at(), do: 'finish', pick: chance.whole(0, 99) })),
    ...several(1, 6, () => ({ at: at(), do: 'remark', pick: chance.whole(0, 99) })),
  ];
}

interface Scene {
  readonly replicas: number;
  readonly servers: readonly string[];
  readonly length: number;
}

function faults(chance: Chance, { replicas, servers, length }: Scene): Happening[] {
  const at = () => chance.whole(1, length);
  const replica = () => chance.whole(0, replicas - 1);
  const back = () => (chance.happens(0.5) ? chance.whole(0, 5 * SECOND) : chance.whole(5 * SECOND, 10 * MINUTE));
  const bad = chance.happens(0.15) ? 0.2 : chance.between(0.5, 2);
  return [
    ...times(chance, 4 * bad, () => weather(chance, at(), 'workspace.test')),
    ...times(chance, 2 * bad, () => weather(chance, at(), `${oneOf(chance, servers)}.test`)),
    ...times(chance, 1 * bad, () => weather(chance, at(), `replica-${replica()}.test`)),
    ...times(chance, 1.5 * bad, (): Happening => {
      const steps = chance.happens(0.2) ? 0 : chance.whole(1, 40);
      return { at: at(), do: 'kill', replica: replica(), steps, back: back(), reboot: chance.happens(0.2) };
    }),
    ...times(chance, 0.5 * bad, () => ({ at: at(), do: 'restart', replica: replica(), back: back() }) as const),
    ...times(chance, (replicas === 1 ? 0.3 : 2) * bad, (): Happening => {
      const duration = chance.happens(0.7) ? chance.whole(500, 8_000) : chance.whole(8_000, 3 * MINUTE);
      return { at: at(), do: 'sleep', replica: replica(), back: duration };
    }),
    ...times(chance, 0.5 * bad, () => ({ at: at(), do: 'jump', replica: replica(), by: jump(chance) }) as const),
    ...(replicas === 1
      ? []
      : times(chance, 0.4 * bad, () => ({ at: at(), do: 'jump-store', by: jump(chance) }) as const)),
    ...times(
      chance,
      0.6,
      () => ({ at: at(), do: 'others', requests: chance.whole(5, 150), for: chance.whole(1, 20) * MINUTE }) as const,
    ),
    ...times(chance, 0.5, (): Happening => {
      const visibility = oneOf(chance, [0, 30, 120]);
      return { at: at(), do: 'reload', visibility, poll: chance.whole(2, 15), concurrency: chance.whole(1, 12) };
    }),
    ...(replicas === 1 ? ofFile(chance, at, bad) : []),
    ...times(
      chance,
      0.25,
      () => ({ at: at(), do: 'rename', name: oneOf(chance, ['acme/web', 'other/app', 'acme/app']) }) as const,
    ),
  ];
}

function ofFile(chance: Chance, at: () => number, bad: number): Happening[] {
  const backups = chance.happens(0.15 * bad);
  const taken = at();
  return [
    ...times(
      chance,
      0.2 * bad,
      () => ({ at: at(), do: 'disk-full', replica: 0, for: chance.whole(1, 300) * SECOND }) as const,
    ),
    ...(backups
      ? [{ at: taken, do: 'backup' } as const, { at: Math.max(taken + 1, at()), do: 'restore', back: 1_000 } as const]
      : []),
  ];
}

/** For less than leases are trusted or for longer, whole or in part, as a server that is barely there again. */
function storeAway(chance: Chance, length: number): Happening[] {
  return times(chance, 1, () => {
    const share = chance.happens(0.4) ? 1 : chance.between(0.02, 0.6);
    const duration = chance.happens(0.5) ? chance.whole(200, 5_000) : chance.whole(5, 120) * SECOND;
    return { at: chance.whole(1, length), do: 'store-away', share, for: duration } as const;
  });
}

function atStatements(chance: Chance, replicas: number, length: number): Happening[] {
  const at = () => chance.whole(1, length);
  const kill = (): Happening => ({
    ...{ at: at(), do: 'kill-at', replica: chance.whole(0, replicas - 1) },
    back: chance.whole(0, 20 * SECOND),
  });
  const fail = (): Happening => ({
    ...{ at: chance.whole(1, Math.ceil(length / 2)), do: 'fail-statements' },
    ...{ share: chance.between(0.05, 0.6), for: chance.whole(5, 60) * MINUTE },
  });
  return [
    ...(chance.happens(0.6) ? Array.from({ length: chance.whole(1, 2) }, kill) : []),
    ...(chance.happens(0.6) ? [fail()] : []),
  ];
}

function restartsAmid(chance: Chance, replicas: number, work: readonly Happening[]): Happening[] {
  const changes = work.filter((each) => each.do === 'pull' || each.do === 'issue');
  if (changes.length === 0) return [];
  return times(chance, 1.5, (): Happening => {
    const { at } = oneOf(chance, changes);
    const replica = chance.whole(0, replicas - 1);
    return { at: at + chance.whole(50, 3 * SECOND), do: 'restart', replica, back: chance.whole(0, 30 * SECOND) };
  });
}

/** In some plans: some ask twice, or think better of it for a while. */
function backfills(chance: Chance, forges: readonly Forge[], length: number): Happening[] {
  if (!chance.happens(0.35)) return [];
  const forge = oneOf(chance, forges);
  const pulls = chance.happens(0.1) ? 120 : chance.whole(1, 30);
  const at = chance.whole(1, length);
  const later = () => at + chance.whole(1, 10 * MINUTE);
  return [
    { at, do: 'backfill', forge, pulls },
    ...times(chance, 0.4, (): Happening => ({ at: later(), do: 'backfill', forge, pulls })),
    ...times(chance, 0.5, (): Happening => {
      const duration = chance.whole(1, 900) * SECOND;
      return {
        at: chance.happens(0.5) ? at + chance.whole(0, 3_000) : later(),
        do: 'pause-backfill',
        forge,
        for: duration,
      };
    }),
  ];
}

/** Owners that sleep for about as long as leases last, while there is something to send; and renewals that come late. */
function lateLeases(chance: Chance, work: readonly Happening[], length: number): Happening[] {
  const changes = work.filter((each) => each.do === 'pull');
  const sleeps = times(chance, 5, (): Happening => {
    const at = changes.length > 0 && chance.happens(0.8) ? oneOf(chance, changes).at : chance.whole(1, length);
    return { at: at + chance.whole(0, 4 * SECOND), do: 'sleep-owner', back: chance.whole(2_500, 12_000) };
  });
  const slow = times(chance, 2, (): Happening => {
    const by = chance.whole(200, 6_000);
    return { at: chance.whole(1, length), do: 'store-slow', by, for: chance.whole(5, 90) * SECOND };
  });
  return [...sleeps, ...slow];
}

function byHand(chance: Chance, happenings: readonly Happening[]): readonly Happening[] {
  return happenings.map((each) => (each.do === 'restore' && chance.happens(0.5) ? { ...each, byHand: true } : each));
}

function garbled(chance: Chance, happenings: readonly Happening[]): readonly Happening[] {
  if (!chance.happens(0.4)) return happenings;
  return happenings.map((each) => {
    const isBroken = each.do === 'pull' && each.forge === 'github' && chance.happens(0.2);
    return isBroken ? { ...each, hooks: { ...each.hooks, repaired: chance.whole(100, 10 * MINUTE) } } : each;
  });
}

function jump(chance: Chance): number {
  const size = chance.happens(0.5) ? chance.whole(1, 5_000) : chance.whole(5_000, 2 * 60 * MINUTE);
  return chance.happens(0.5) ? size : -size;
}

function weather(chance: Chance, at: number, server: string): Happening {
  const trouble = oneOf(chance, TROUBLES);
  const share = chance.happens(0.4) ? 1 : chance.between(0.1, 0.9);
  const duration = chance.happens(0.8) ? chance.whole(1, 180) * SECOND : chance.whole(3, 20) * MINUTE;
  return { at, do: 'weather', server, trouble, share, for: duration };
}
