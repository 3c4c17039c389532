/** A part of the daemon that runs on its own. Both methods are idempotent, also when they race. */
export interface Stage {
  start(): void;
  /** Stops taking new work and resolves when the work in hand is done. */
  stop(): Promise<void>;
}
