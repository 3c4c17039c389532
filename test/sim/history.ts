/** An observation from outside, of the network and the machines, as plain JSON. `at` is virtual milliseconds. */
export type Event = { readonly at: number } & (
  | Sent
  | Arrived
  | Answered
  | Heard
  | Promised
  | Calm
  | ({ readonly what: 'configured' } & Configured)
  | Hook
  | { readonly what: 'happened'; readonly happening: unknown }
  | { readonly what: 'started' | 'killed' | 'stopped'; readonly process: string; readonly replica: number }
  | { readonly what: 'owner'; readonly replica: number; readonly epoch: number }
  /** The database did not take a transaction of it, which is named by the first statement in it that writes. */
  | { readonly what: 'unstored'; readonly process: string; readonly transaction: string }
  | { readonly what: 'restored'; readonly backupAt: number }
  | { readonly what: 'unlinked'; readonly task: string; readonly url: string }
  | { readonly what: 'linked'; readonly task: string; readonly url: string }
  | { readonly what: 'finished'; readonly task: string }
  | { readonly what: 'status-set'; readonly task: string; readonly status: string }
  | { readonly what: 'remarked'; readonly url: string; readonly text: string }
  | { readonly what: 'healed' }
  /** Its log says that nobody can read this delivery. */
  | { readonly what: 'warned'; readonly key: string }
  | { readonly what: 'unexpected'; readonly text: string }
  /** On known days: a line of its log. */
  | { readonly what: 'said'; readonly process: string; readonly text: string }
  /** On known days: how often something was counted in all. */
  | { readonly what: 'counted'; readonly name: string; readonly count: number }
  /** On known days: how many statements it took so far; and by table, how many rows there are. */
  | { readonly what: 'rows'; readonly counts: readonly (readonly [string, string])[] }
  | ({ readonly what: 'inbox' } & InboxRow)
  | ({ readonly what: 'looked' } & Look)
);

interface Sent {
  readonly what: 'sent';
  readonly id: number;
  readonly from: string;
  readonly replica: number;
  readonly method: string;
  readonly url: string;
  readonly body: string;
}

/** It reaches the server, which may be much later, or never. */
interface Arrived {
  readonly what: 'arrived';
  readonly id: number;
  readonly from: string;
  readonly server: string;
  readonly method: string;
  readonly path: string;
  readonly body: string;
}

/** The server has acted; whether anybody hears of it is another matter. */
interface Answered {
  readonly what: 'answered';
  readonly id: number;
  readonly status: number;
  readonly body: string;
}

/** The answer as the sender saw it; 0 if none came. */
interface Heard {
  readonly what: 'heard';
  readonly id: number;
  readonly status: number;
}

/** Something that had to be seen within a time, and how long it took; null: it was not seen. */
interface Promised {
  readonly what: 'promised';
  readonly name: string;
  readonly within: number;
  readonly took: number | null;
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

interface Configured {
  readonly share: number | 'auto';
  /** The form of updates of tasks, where rules decide about their statuses. */
  readonly workflow?: 'whole' | 'fields' | undefined;
  readonly concurrency: number;
}

/** A provider's webhook, and what its sender heard: 0 is nothing. */
interface Hook {
  readonly what: 'hook';
  /** The id of the answered exchange; absent without an answer. */
  readonly id?: number | undefined;
  readonly connection: string;
  readonly key: string;
  readonly status: number;
  readonly isBroken?: boolean;
}

interface InboxRow {
  readonly connection: string;
  readonly key: string;
  readonly state: string;
  readonly reason: string | null;
}

/** The workspace as people see it, beside what the providers hold at that moment. */
export interface Look {
  readonly records: readonly Readonly<Record<string, unknown>>[];
  readonly tasks: readonly {
    readonly taskId: string;
    readonly key: string;
    readonly source: string | null;
    readonly status: string;
  }[];
  readonly links: readonly {
    readonly taskId: string;
    readonly workItemId: string;
    readonly url: string;
    readonly isByHand: boolean;
  }[];
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
