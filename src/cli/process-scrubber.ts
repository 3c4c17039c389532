import { cleanErrorsWith } from '../model/errors/sync-error.ts';
import { createScrubber, type Scrubber } from '../platform/observe/scrubber.ts';

/** The scrubber of this process, which every error is cleaned with from now on. */
export function newScrubber(): Scrubber {
  const scrubber = createScrubber();
  cleanErrorsWith(scrubber.scrub);
  return scrubber;
}
