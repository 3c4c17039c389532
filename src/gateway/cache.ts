import type { HttpAnswer } from '../http/client.ts';
import type { Clock } from '../lib/clock.ts';

export interface Cached {
  readonly answer: HttpAnswer;
  /** Whole seconds since the workspace said so. */
  readonly age: number;
}

/**
 * Answers of reads, for a short time and in memory only. Equal reads that come while one is on its way share its
 * answer. A write to the workspace, by whomever, ends what is held of that workspace.
 */
export interface Cache {
  /** @param freshFor milliseconds */
  fresh(workspace: string, address: string, freshFor: number): Cached | undefined;
  /** Runs `read` once for all that ask meanwhile, and keeps its answer where it is a 200. */
  shared(workspace: string, address: string, read: () => Promise<HttpAnswer>): Promise<HttpAnswer>;
  forget(workspace: string): void;
}

/** Bytes of answers kept for all workspaces together. */
const LARGEST = 32 * 1024 * 1024;

interface Entry {
  readonly answer: HttpAnswer;
  /** When it was asked for: it may be as old as that. */
  readonly asked: number;
}

export function createCache(clock: Clock, largest = LARGEST): Cache {
  const held = new Map<string, Map<string, Entry>>();
  const flying = new Map<string, Promise<HttpAnswer>>();
  const generation = new Map<string, number>();
  let bytes = 0;

  const of = (workspace: string) => {
    const found = held.get(workspace) ?? new Map<string, Entry>();
    held.set(workspace, found);
    return found;
  };
  /** Forgets one answer. */
  const drop = (entries: Map<string, Entry>, address: string) => {
    bytes -= entries.get(address)?.answer.body.length ?? 0;
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
  const keep = (workspace: string, address: string, answer: HttpAnswer, asked: number) => {
    if (answer.status !== 200 || answer.body.length > largest) return;
    const entries = of(workspace);
    drop(entries, address);
    makeRoom(answer.body.length);
    entries.set(address, { answer, asked });
    bytes += answer.body.length;
  };

  return {
    fresh(workspace, address, freshFor) {
      const entry = held.get(workspace)?.get(address);
      const age = entry === undefined ? Number.POSITIVE_INFINITY : clock.monotonic() - entry.asked;
      return entry && age < freshFor ? { answer: entry.answer, age: Math.floor(age / 1_000) } : undefined;
    },
    shared(workspace, address, read) {
      const name = `${workspace}\n${generation.get(workspace) ?? 0}\n${address}`;
      const present = flying.get(name);
      if (present) return present;
      const asked = clock.monotonic();
      const before = generation.get(workspace);
      const reading = read()
        .then((answer) => {
          // A write that went through meanwhile may not be in this answer.
          if (generation.get(workspace) === before) keep(workspace, address, answer, asked);
          return answer;
        })
        .finally(() => flying.delete(name));
      flying.set(name, reading);
      return reading;
    },
    forget(workspace) {
      generation.set(workspace, (generation.get(workspace) ?? 0) + 1);
      const entries = of(workspace);
      for (const address of entries.keys()) drop(entries, address);
    },
  };
}
