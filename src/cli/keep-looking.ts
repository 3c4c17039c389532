import { asSyncError } from '../model/errors/sync-error.ts';
import { sleep, systemClock } from '../platform/lib/clock.ts';
import { say } from './setting.ts';

/** Looks at the daemon until a signal ends the process. A daemon that is away for a while is no reason to end. */
export async function keepLooking(every: number, look: () => Promise<void>): Promise<never> {
  const clock = systemClock();
  let lost = '';
  for (;;) {
    try {
      await look();
      lost = '';
    } catch (thrown) {
      const { code, message } = asSyncError(thrown);
      if (code === 'unauthorized') throw thrown;
      if (message !== lost) say(`worksync: ${message}`);
      lost = message;
    }
    await sleep(clock, every);
  }
}
