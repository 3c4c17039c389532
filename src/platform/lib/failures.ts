/**
 * Does each step in order, though others before it have failed: a step that fails keeps no other from being done. Throws their
 * failures at the end.
 */
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

/** Throws the failures of several independent actions: one as it is, several as one. */
export function throwAll(failures: readonly unknown[]): void {
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} things failed`);
  if (failures.length === 1) throw failures[0];
}
