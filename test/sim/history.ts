/** An observation from outside, of the network and the machines, as plain JSON. `at` is virtual milliseconds. */
export type Event = Readonly<
  { at: number } & (
    | Sent
    /** A request reaches the server, which may be much later than it was sent, or never. */
    | ({ what: 'arrived'; server: string; path: string } & Omit<Sent, 'what' | 'replica' | 'url'>)
    /** The server has acted; the answer may be lost. */
    | { what: 'answered'; id: number; status: number; body: string }
    /** The answer as the sender saw it; 0 if none came. */
    | { what: 'heard'; id: number; status: number }
    /** Something that had to be seen within a time, and how long it took; null: it was not seen. */
    | { what: 'promised'; name: string; within: number; took: number | null }
    | Calm
    /** `workflow`: the form of updates of tasks, where rules decide about their statuses. */
    | {
        what: 'configured';
        share: number | 'auto';
        workflow?: 'whole' | 'fields' | undefined;
        concurrency: number;
      }
    | Hook
    | { what: 'happened'; happening: unknown }
    | { what: 'started' | 'killed' | 'stopped'; process: string; replica: number }
    | { what: 'owner'; replica: number; epoch: number }
    /** The database did not take a transaction of it, which is named by the first statement in it that writes. */
    | { what: 'unstored'; process: string; transaction: string }
    | { what: 'restored'; backupAt: number }
    | { what: 'linked'; task: string; url: string }
    | { what: 'unlinked'; task: string; url: string }
    | { what: 'finished'; task: string }
    | { what: 'status-set'; task: string; status: string }
    | { what: 'remarked'; url: string; text: string }
    | { what: 'healed' }
    /** Its log says that nobody can read this delivery. */
    | { what: 'warned'; key: string }
    | { what: 'unexpected'; text: string }
    /** On known days: a line of its log, how often something was counted in all, and how many rows each table has. */
    | { what: 'said'; process: string; text: string }
    | { what: 'counted'; name: string; count: number }
    | { what: 'rows'; counts: readonly (readonly [string, string])[] }
    | { what: 'inbox'; connection: string; key: string; state: string }
    | ({ what: 'looked' } & Look)
  )
>;

export type Of<What extends Event['what']> = Extract<Event, { what: What }>;

interface Sent {
  readonly what: 'sent';
  readonly id: number;
  readonly from: string;
  readonly replica: number;
  readonly method: string;
  readonly url: string;
  readonly body: string;
}

/** A time that ends now, in which nothing was disturbed: with so many requests at most. */
interface Calm {
  readonly what: 'calm';
  readonly name: string;
  readonly began: number;
  /** Where several replicas work, beside links that are new: which others are due then depends on when they read the list of tasks. */
  readonly writes: number;
  readonly reads: number;
  /** The most requests to providers; any number if absent. */
  readonly asked?: number;
}

interface Hook {
  readonly what: 'hook';
  /** The id of the answered exchange; absent without an answer. */
  readonly id?: number | undefined;
  readonly connection: string;
  readonly key: string;
  readonly status: number;
  /** Nobody can read it. */
  readonly isBroken?: boolean;
}

/** The workspace as people see it, beside what the providers hold at that moment. */
export interface Look {
  readonly records: readonly Readonly<Record<string, unknown>>[];
  readonly tasks: readonly { taskId: string; key: string; source: string | null; status: string }[];
  readonly links: readonly { taskId: string; workItemId: string; url: string }[];
  readonly pulls: readonly {
    readonly record: Readonly<Record<string, unknown>>;
    /** Addresses that it had so far: the repository may have been renamed. */
    readonly urls: readonly string[];
    readonly title: string;
    readonly state: string;
    readonly isDraft: boolean;
    /** The times of creation and merge. */
    readonly created: number;
    readonly ended: number | null;
    /** Keys of the tasks that its texts name, and the key of the item. */
    readonly named: readonly string[];
    readonly item: string | undefined;
    /** It was closed before worksync began, and nobody has asked for it: worksync may know of it, and need not. */
    readonly isUnheard: boolean;
  }[];
  readonly issues: readonly {
    readonly key: string;
    readonly url: string;
    readonly title: string;
    readonly isWanted: boolean;
    /** Where worksync writes comments: all that stand there. */
    readonly comments?: readonly { readonly author: string; readonly text: string }[] | undefined;
  }[];
  /** The work that the daemon reports as left; undefined if no process works. */
  readonly left: number | undefined;
}

export type Recorder = ReturnType<typeof createRecorder>;

type WithoutTime<Each> = Each extends unknown ? Omit<Each, 'at'> : never;

export function createRecorder(now: () => number) {
  const events: Event[] = [];
  return {
    events: events as readonly Event[],
    record: (event: WithoutTime<Event>) => void events.push({ at: now(), ...event } as Event),
  };
}

/** Whether the database did not take everything at some time: what it did not take may be known to one process alone, and be lost with it. */
export function isStoreDisturbed(events: readonly Event[]): boolean {
  return events.some((event) => event.what === 'happened' && isOfDatabase(event.happening));
}

const SECOND = 1_000;

/** So long after an answer it may not be stored, milliseconds: where the database does not take all at once, from when it was tried last. */
export function storedWithin(events: readonly Event[]): number {
  return (isStoreDisturbed(events) ? 10 : 1) * SECOND;
}

function isOfDatabase(happening: unknown): boolean {
  return ['fail-statements', 'store-away', 'store-slow'].includes((happening as { readonly do: string }).do);
}

/** Tasks of which worksync made or removed a link that the backup, which was put back later, does not know of: it is as if people had. */
export function linkedSinceBackup(events: readonly Event[]): ReadonlySet<string> {
  const restores = events.filter((event) => event.what === 'restored');
  const tasks = events.flatMap((event) => {
    if (event.what !== 'arrived' || event.method === 'GET') return [];
    const isSince = restores.some(({ backupAt, at }) => event.at >= backupAt && event.at <= at);
    return isSince ? (/\/tasks\/([^/]+)\/work-items/.exec(event.path)?.slice(1) ?? []) : [];
  });
  return new Set(tasks);
}
