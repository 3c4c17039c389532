/** Resolves when the event loop has handled everything that is ready now: what arrived together is then at hand. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
