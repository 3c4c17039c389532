/** What a delivery says of an item: the fields that the workspace mirrors, all of them, and some that it does not. */
export interface Fields {
  readonly title: string;
  readonly description: string;
  readonly state: 'open' | 'closed' | 'merged';
  readonly draft: boolean;
  readonly reviewers: readonly string[];
  readonly labels: readonly string[];
  readonly assignees: readonly string[];
  /** Not mirrored. */
  readonly head: string;
}

/** One line of a trace file: a delivery, seconds after the start of the trace. */
export interface Line {
  readonly at: number;
  readonly connection: string;
  readonly event: string;
  /** `<repository>/<number>`. */
  readonly item: string;
  readonly fields: Fields;
  /** When the provider says that this became so; earlier than `at` for replays and polls. */
  readonly updated: number;
}

/** A delivery that changed what the workspace is to show of an item. */
export interface Event {
  readonly at: number;
  readonly item: string;
  /** Stands for all mirrored fields: equal states need no write between them. */
  readonly state: string;
  readonly finished: boolean;
}

/** The deliveries of a trace that change mirrored state. Newest wins: replays and polls change nothing. */
export function eventsOf(lines: readonly Line[]): Event[] {
  return eventLines(lines).map(({ at, item, fields }) => {
    return { at, item, state: mirroredState(fields), finished: fields.state !== 'open' };
  });
}

/** Those lines as they stand. */
export function eventLines(lines: readonly Line[]): Line[] {
  const newest = new Map<string, { updated: number; state: string }>();
  return lines.filter(({ item, fields, updated }) => {
    const before = newest.get(item);
    if (before !== undefined && updated <= before.updated) return false;
    const state = mirroredState(fields);
    newest.set(item, { updated, state });
    return before?.state !== state;
  });
}

function mirroredState(fields: Fields): string {
  return JSON.stringify({ ...fields, head: undefined });
}

/** Events by their item, each in order of time. */
export function byItem<Entry extends { readonly item: string }>(entries: readonly Entry[]): Map<string, Entry[]> {
  return Map.groupBy(entries, ({ item }) => item);
}
