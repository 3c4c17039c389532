import { readFileSync } from 'node:fs';
import { z } from 'zod';

const names = z.array(z.string()).readonly().default([]);
/** The fields of an item in a delivery: all that the workspace mirrors, and `head`, which it does not. */
const fields = z.strictObject({
  title: z.string(),
  description: z.string().default(''),
  state: z.enum(['open', 'closed', 'merged']).default('open'),
  draft: z.boolean().default(false),
  reviewers: names,
  labels: names,
  assignees: names,
  head: z.string().default(''),
});

/** One line of a trace file: a delivery, seconds after the start of the trace. */
const line = z.strictObject({
  at: z.number().min(0),
  connection: z.string().min(1),
  event: z.string().min(1),
  item: z.string().regex(/^[^/]+\/[^/]+$/, 'expected <repository>/<number>'),
  fields,
  /** When the provider says that this became so; earlier than `at` for replays and polls. */
  updated: z.number().optional(),
});

export type Fields = Readonly<z.infer<typeof fields>>;
export type Line = Readonly<Required<z.infer<typeof line>>>;

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

export function byItem<Entry extends { readonly item: string }>(entries: readonly Entry[]): Map<string, Entry[]> {
  return Map.groupBy(entries, ({ item }) => item);
}

/** So many pull requests opened at the same moment: distinct changes, each of one write. */
export function atOnce(count: number): Line[] {
  const fields: Fields = {
    ...{ title: 'Title 1', description: 'Description 1', state: 'open' as const, draft: false, head: '0' },
    ...{ reviewers: [], labels: [], assignees: [] },
  };
  return Array.from({ length: count }, (_, index) => {
    return { at: 0, updated: 0, connection: 'github', event: 'opened', item: `1/${index + 1}`, fields };
  });
}

/** A trace of deliveries, one JSON object on each line, in order of time. Throws what names the line that is wrong. */
export function readTrace(path: string): Line[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  const trace = lines.flatMap((text, index) => (text.trim() === '' ? [] : [readLine(text, `${path}:${index + 1}`)]));
  if (trace.length === 0) throw new Error(`${path}: there is nothing in it`);
  return trace.toSorted((left, right) => left.at - right.at);
}

function readLine(text: string, where: string): Line {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new Error(`${where}: this is no JSON`, { cause });
  }
  const read = line.safeParse(value);
  if (!read.success) throw new Error(`${where}: ${z.prettifyError(read.error)}`);
  return { ...read.data, updated: read.data.updated ?? read.data.at };
}
