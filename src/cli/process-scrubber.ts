import { cleanErrorsWith } from '../errors/secrets.ts';
import { createScrubber, type Scrubber } from '../observe/scrubber.ts';

/** The scrubber of this process, which every error is cleaned with from now on. */
export function newScrubber(): Scrubber {
  const scrubber = createScrubber();
  cleanErrorsWith(scrubber.scrub);
  return scrubber;
}
