/** How far the clock of a server is from ours. */
export interface Skew {
  /** Host and port. */
  readonly server: string;
  /** Milliseconds that its clock is ahead of ours; negative: behind. */
  readonly ahead: number;
}
