import type { Clock } from '../platform/lib/clock.ts';
import type { Outgoing } from './outgoing.ts';

/** Identifies a read. */
export interface Reading {
  readonly workspace: string;
  /** Path, query and accepted type: what the answer depends on. */
  readonly address: string;
  /** Reads with equal names that come while one is on its way share its answer. */
  readonly flight: string;
}

export type Cache = ReturnType<typeof createCache>;

/** Bytes of answers kept for all workspaces together, and what an answer takes beside its body. */
const LARGEST = 32 * 1024 * 1024;
const OVERHEAD = 1_024;

interface Entry {
  readonly answer: Outgoing;
  /** The time of the request, by the monotonic clock: the answer may be as old as that. */
  readonly asked: number;
  readonly size: number;
}

/**
 * Answers of reads, for a short time and in memory only. A write to the workspace, by any caller, ends the cached answers of that
 * workspace: an answer that was requested before the write ended is neither kept nor shared after it.
 *
 * @param largest bytes
 */
export function createCache(clock: Clock, largest = LARGEST) {
  const held = new Map<string, Map<string, Entry>>();
  const flying = new Map<string, Promise<Outgoing>>();
  const generations = new Map<string, number>();
  let bytes = 0;

  const generationOf = (workspace: string) => generations.get(workspace) ?? 0;
  const entriesOf = (workspace: string) => {
    const found = held.get(workspace) ?? new Map<string, Entry>();
    held.set(workspace, found);
    return found;
  };
  const drop = (entries: Map<string, Entry>, address: string) => {
    bytes -= entries.get(address)?.size ?? 0;
    entries.delete(address);
  };
  /** The oldest go first: a map keeps the order in which its entries were made. */
  const makeRoom = (needed: number) => {
    for (const entries of held.values()) {
      for (const address of entries.keys()) {
        if (bytes + needed <= largest) return;
        drop(entries, address);
      }
    }
  };
  const keep = ({ workspace, address }: Reading, answer: Outgoing, asked: number) => {
    const size = (answer.body?.length ?? 0) + 2 * address.length + OVERHEAD;
    if (answer.status !== 200 || size > largest) return;
    const entries = entriesOf(workspace);
    drop(entries, address);
    makeRoom(size);
    entries.set(address, { answer, asked, size });
    bytes += size;
  };

  return {
    /**
     * Returns the answer with its age in whole seconds since it was requested.
     *
     * @param freshFor milliseconds
     */
    fresh(workspace: string, address: string, freshFor: number) {
      const entry = held.get(workspace)?.get(address);
      const age = entry === undefined ? Number.POSITIVE_INFINITY : clock.monotonic() - entry.asked;
      return entry && age < freshFor ? { answer: entry.answer, age: Math.floor(age / 1_000) } : undefined;
    },
    /**
     * Runs `read` once for all callers that request it meanwhile, and keeps its answer if it is a 200 and `mayKeep`. `joined`: another
     * caller's request brought the answer.
     */
    async shared(reading: Reading, mayKeep: boolean, read: () => Promise<Outgoing>) {
      const { workspace, flight } = reading;
      const generation = generationOf(workspace);
      const name = JSON.stringify([workspace, generation, flight]);
      const present = flying.get(name);
      if (present) return { answer: await present, joined: true };
      const asked = clock.monotonic();
      const flown = read().finally(() => flying.delete(name));
      flying.set(name, flown);
      const answer = await flown;
      if (mayKeep && generationOf(workspace) === generation) keep(reading, answer, asked);
      return { answer, joined: false };
    },
    forget(workspace: string): void {
      generations.set(workspace, generationOf(workspace) + 1);
      const entries = entriesOf(workspace);
      for (const address of entries.keys()) drop(entries, address);
    },
  };
}
