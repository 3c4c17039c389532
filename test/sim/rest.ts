/**
 * Lets whatever is ready run, until all that is left waits for time to pass: so a run takes the same course however long a disk
 * takes. In each turn of the event loop all promises and ticks run to their end.
 */
export async function rest(): Promise<void> {
  do await nextTurn();
  while (isUnderWay());
}

/** Turns that somebody here waits for. */
let awaited = 0;

/** Work for another turn, and what the runtime has asked the system for, as of a file. Timers and sockets are none of ours. */
function isUnderWay(): boolean {
  let turns = 0;
  for (const resource of process.getActiveResourcesInfo()) {
    if (resource.includes('Req')) return true;
    if (resource === 'Immediate') turns++;
  }
  return turns > awaited;
}

function nextTurn(): Promise<void> {
  awaited++;
  return new Promise((resolve) =>
    setImmediate(() => {
      awaited--;
      resolve();
    }),
  );
}
