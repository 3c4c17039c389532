import type { ErrorCode } from '../../model/errors/codes.ts';
import type { Lane } from '../../model/lane.ts';
import type { Scope } from '../../store/workspace-scope.ts';
import type { WorkspaceClient } from '../../workspace-api/typed-client.ts';
import type { Pace } from './deadlines.ts';

/** The right to send one request. The throttle gives it; see there for what each method promises. */
export interface Slot {
  record(query: Scope): Promise<void>;
  release(): void;
  /** Nobody here can write down how it ended. */
  leave(): void;
  complete(answer: SlotAnswer | undefined, query?: Scope): Promise<void>;
}

interface SlotAnswer {
  readonly status: number;
  readonly retryAfter?: number;
  /** What the answer says about our key: null: accepted; else why it is refused; absent: nothing. */
  readonly key?: { readonly code: ErrorCode; readonly reason: string } | null;
}

/** The part of the throttle that the outbox needs. */
export interface Slots {
  acquire(wish: { lane: Lane; due: number; signal?: AbortSignal }): Promise<Slot>;
  usedShare(): number;
  /** How many requests of the background each window takes at present. */
  paces(): readonly Pace[];
  /** Our key was refused, and no answer has shown yet that it is accepted again. */
  isHalted(): boolean;
}

/** A request sent by the outbox uses the slot that its own transaction recorded. */
export interface SendContext {
  readonly slot: Slot;
  /** Header of W3C Trace Context; absent: none is sent. */
  readonly traceparent?: string;
}

export type Client = WorkspaceClient<SendContext>;
