import { hash } from 'node:crypto';
import type { Event } from './history.ts';

/** Characters of what is sent; of all others a hash. */
const MOST_SHOWN = 120;
/** Each request stands here itself. */
const OF_REQUESTS = 'info request answered';

/** A day as a reader sees it: who asks what of whom and when, what is said of it, and which rows it leaves. One line each. */
export function portraitOf(events: readonly Event[]): string[] {
  const before = new Map<string, string>();
  return events.flatMap((event) => {
    const text = lineOf(event, before);
    return text === undefined ? [] : [`${timeOf(event.at)} ${text}`];
  });
}

function lineOf(event: Event, before: Map<string, string>): string | undefined {
  switch (event.what) {
    case 'happened':
      return `* ${JSON.stringify(event.happening)}`;
    case 'calm':
      return `= ${event.name}`;
    case 'sent':
      return `${event.from} ${event.method} ${shown(event.url)} ${shown(event.body)}`.trim();
    case 'hook':
      return `webhook of ${event.connection}: ${event.status}`;
    case 'said':
      return event.text === OF_REQUESTS ? undefined : `${event.process} says: ${event.text}`;
    case 'counted':
      return `counted: ${event.name} ${event.count}`;
    case 'started':
    case 'stopped':
      return `${event.process} ${event.what}`;
    case 'owner':
      return `replica ${event.replica} owns the workspace, time ${event.epoch}`;
    case 'rows':
      return rowsOf(event.counts, before);
    default:
      return undefined;
  }
}

/** Those that are others than before. */
function rowsOf(counts: readonly (readonly [string, string])[], before: Map<string, string>): string | undefined {
  const changed = counts.filter(([table, count]) => before.get(table) !== count);
  for (const [table, count] of changed) before.set(table, count);
  return changed.length === 0 ? undefined : `rows: ${changed.map(([table, count]) => `${table} ${count}`).join('; ')}`;
}

function shown(text: string): string {
  const rest = text.slice(MOST_SHOWN);
  return text.slice(0, MOST_SHOWN) + (rest === '' ? '' : `… ${hash('sha256', rest, 'hex').slice(0, 6)}`);
}

/** `1:02:03.004` after the beginning. */
function timeOf(at: number): string {
  const pad = (value: number, length = 2) => String(Math.floor(value)).padStart(length, '0');
  return `${Math.floor(at / 3_600_000)}:${pad((at / 60_000) % 60)}:${pad((at / 1_000) % 60)}.${pad(at % 1_000, 3)}`;
}
