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
  const newest = new Map<string, { updated: number; state: string }>();
  const events: Event[] = [];
  for (const { at, item, fields, updated } of lines) {
    const before = newest.get(item);
    if (before !== undefined && updated <= before.updated) continue;
    const state = mirroredState(fields);
    newest.set(item, { updated, state });
    if (before?.state !== state) events.push({ at, item, state, finished: fields.state !== 'open' });
  }
  return events;
}

function mirroredState({ head: _, ...mirrored }: Fields): string {
  return JSON.stringify(mirrored);
}

/** Events by their item, each in order of time. */
export function byItem<Entry extends { readonly item: string }>(entries: readonly Entry[]): Map<string, Entry[]> {
  return Map.groupBy(entries, ({ item }) => item);
}
