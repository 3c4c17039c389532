/** Throws what failed where several things were done whatever befell the others: one failure as it is, more as one. */
export function throwAll(failures: readonly unknown[]): void {
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} things failed`);
  if (failures.length === 1) throw failures[0];
}
