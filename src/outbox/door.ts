import type { Lane } from '../model/lane.ts';
import type { Query } from '../store/database.ts';
import type { WorkspaceClient } from '../workspace/client.ts';

/** The right to send one request. The throttle gives it; see there for what each method promises. */
export interface Slot {
  record(query: Query): Promise<void>;
  release(): void;
  complete(answer: { status: number; retryAfter?: number } | undefined, query?: Query): Promise<void>;
}

/** The part of the throttle that the outbox needs. */
export interface Slots {
  acquire(wish: { lane: Lane; due: number; signal?: AbortSignal }): Promise<Slot>;
  usedShare(): number;
  /** Nothing is sent before `until` (epoch milliseconds), whoever asks. */
  pause(until: number, reason: string): Promise<void>;
}

/** A request sent by the outbox uses the slot that its own transaction recorded. */
export interface SendContext {
  readonly slot: Slot;
}

export type Client = WorkspaceClient<SendContext>;
