import { Cron } from 'croner';

/** A cron expression, as pure reckoning: it starts nothing. Its moments are those of the process's time zone. */
export interface CronTimes {
  /** The first moment after this one, epoch milliseconds; undefined where none comes any more. */
  after(ms: number): number | undefined;
}

/**
 * Five fields, six with the seconds first, or a name such as `@daily`; undefined where the text is none of these, or names
 * no moment at all.
 */
export function parseCron(text: string): CronTimes | undefined {
  // A single date would be understood too.
  if (!text.startsWith('@') && text.trim().split(/\s+/).length < 5) return undefined;
  try {
    const cron = new Cron(text, { mode: '5-or-6-parts', paused: true, sloppyRanges: true });
    const after = (ms: number) => cron.nextRun(new Date(ms))?.getTime();
    return after(0) === undefined ? undefined : { after };
  } catch {
    return undefined;
  }
}
