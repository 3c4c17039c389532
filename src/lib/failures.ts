/** Throws the failures of several independent actions: one as it is, several as one. */
export function throwAll(failures: readonly unknown[]): void {
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} things failed`);
  if (failures.length === 1) throw failures[0];
}
