/** Resolves when the event loop has handled everything that is ready now: what arrived together is then at hand. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A request takes about as many: its connection is accepted, one in each turn, its bytes are read, and it is answered. */
const TURNS_OF_REQUEST = 10;

/** For work in pieces of many milliseconds: between two pieces, everything that waits outside gets all its turns. */
export async function yieldForRequests(): Promise<void> {
  for (let turn = 0; turn < TURNS_OF_REQUEST; turn++) await yieldToEventLoop();
}
