import { sql } from 'kysely';
import { type Act, MINUTE, NEVER, PROMPT, type Ways } from './calm-ways.ts';
import { lookAtWorkspace } from './look.ts';
import type { TrackerName } from './plan.ts';
import type { Site } from './site.ts';

/** No plan has so large a number. */
const DELETED = 93;
/** Sweeps come each hour, give or take a tenth; whatever a list lacks is asked for by itself. */
const SWEPT = 75 * MINUTE;

/** What no webhook tells, and no list of what has changed, a sweep notices: that something is not there any more. */
export async function goneUnheard(
  site: Site,
  tracker: TrackerName,
  { phase, promised }: Ways,
  act: Act,
): Promise<void> {
  const issue = { at: 0, do: 'issue', tracker, number: DELETED } as const;
  const keys = () => new Set(site.providers.held().issues.map(({ key }) => key));
  const before = keys();
  await phase('an item is deleted, and nobody tells', 4, 60, async () => {
    await act({ ...issue, change: 'open', hooks: PROMPT });
    const key = [...keys()].find((each) => !before.has(each)) as string;
    await promised('the task of what will be deleted', 2 * MINUTE, async () =>
      (await lookAtWorkspace(site)).tasks.some(({ source }) => source === key),
    );
    await act({ ...issue, change: 'deleted', hooks: NEVER });
    await promised('that an item is gone', SWEPT, () => isGone(site, key));
  });
}

/** As the table says, past the program. */
async function isGone(site: Site, key: string): Promise<boolean> {
  const store = site.partition()?.store;
  if (!store) return false;
  const { rows } = await sql<{ gone: number }>`
    select gone from items where workspace = ${store.query.workspace} and key = ${key}`.execute(store.query.whole);
  return rows.some(({ gone }) => gone === 1);
}
