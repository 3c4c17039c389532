import { writeSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** For `node --import`: tells on standard error what the program loads, each address once, in a line of its own. */
const STANDARD_ERROR = 2;
const told = new Set<string>();

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    if (!told.has(found.url)) tell(found.url);
    return found;
  },
});

function tell(url: string): void {
  told.add(url);
  let rest = Buffer.from(`loads ${url}\n`);
  while (rest.length > 0) rest = rest.subarray(written(rest));
}

/** A pipe whose reader is slow is full at times, and takes nothing then. */
function written(bytes: Buffer): number {
  try {
    return writeSync(STANDARD_ERROR, bytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return 0;
    throw error;
  }
}
