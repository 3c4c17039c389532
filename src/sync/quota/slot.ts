import type { ErrorCode } from '../../model/errors/codes.ts';
import type { Scope } from '../../store/workspace-scope.ts';

/** Exactly one of `release`, `complete` and `leave` must end every slot. */
export interface Slot {
  /** Writes the ledger row in the caller's transaction, which must be committed before the request is sent. */
  record(query: Scope): Promise<void>;
  /** Nothing was sent, also because the transaction was rolled back: the slot is free at once. Idempotent. */
  release(): void;
  /**
   * The request ended; undefined: no answer came. The slot is freed one window after this moment. One durable update,
   * inside the given transaction where there is one; called again, after that was rolled back, it only writes again.
   */
  complete(answer: SlotAnswer | undefined, query?: Scope): Promise<void>;
  /**
   * Nobody here can write down how it ended: its row stays as it was recorded, and whoever opens the ledger next counts it as
   * a request that is on its way. Does nothing to one that has ended.
   */
  leave(): void;
}

export interface SlotAnswer {
  readonly status: number;
  /** Milliseconds that a refusal asked to wait. */
  readonly retryAfter?: number;
  /** What the answer says about the daemon's own key: null: accepted; else why it is refused; absent: nothing. */
  readonly key?: KeyRefusal | null;
}

/** The daemon's key was refused: nothing more is sent with it for a while, then one request at a time. */
export interface KeyRefusal {
  readonly code: ErrorCode;
  /** For people. */
  readonly reason: string;
}
