/**
 * Where a page stands in a list of the workspace. Only a list that is known to be complete proves that something is absent.
 */
export interface ListPage {
  /** When the first page was requested, epoch milliseconds. */
  readonly began: number;
  /** No further page follows. */
  readonly isEnd: boolean;
  /** Nothing was left out between the first page and this end. */
  readonly isComplete: boolean;
}

/** Lengths at which servers cut lists without saying so. */
const USUAL_LIMITS: ReadonlySet<number> = new Set([20, 25, 50, 100, 200, 500, 1_000]);

/** Whether a list of this length that does not say whether it is the last page may have been cut. */
export function mayBeCut(length: number, isLast: boolean | null): boolean {
  return isLast === null && USUAL_LIMITS.has(length);
}
