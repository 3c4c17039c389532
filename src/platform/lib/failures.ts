/** Runs all steps in order, also after one has failed. Throws the failures at the end. */
export async function doAll(steps: readonly (() => unknown)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  throwAll(failures);
}

/** Throws the failures of independent actions: a single one as it is, several as an `AggregateError`. */
export function throwAll(failures: readonly unknown[]): void {
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} things failed`);
  if (failures.length === 1) throw failures[0];
}
