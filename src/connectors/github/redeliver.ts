import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/client.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Connection } from '../connector.ts';
import { parseAnswer, readAnswer } from '../kit/json.ts';
import { createMemory } from '../kit/listing.ts';
import type { Api } from './api.ts';
import { appHook, eventsOf } from './hooks.ts';
import type { Options } from './options.ts';
import { type FindHook, orUndefined, placesOf } from './places.ts';
import type { Repositories } from './repositories.ts';

type Redeliver = NonNullable<Connection['redeliver']>;

const DAY = 86_400_000;
/** How long GitHub keeps deliveries (providers' facts §1.2). */
const KEPT = { public: 3 * DAY, own: 7 * DAY };
/** What still fails after so many attempts is not asked for again. */
const MOST_ATTEMPTS = 3;
/** Pages of the list of one hook, and deliveries asked for at a time; the rest has its turn the next time. */
const MOST_PAGES = 50;
const MOST_AT_ONCE = 60;

interface RedeliverDeps {
  readonly api: Api;
  readonly appApi: Api | undefined;
  readonly options: Options;
  readonly repositories: Repositories;
  readonly findHook: FindHook;
  readonly clock: Clock;
}

/** GitHub repeats nothing by itself. What was asked for often enough is seen in its own list of deliveries. */
export function createRedeliver(deps: RedeliverDeps): Redeliver {
  const readSince = createReader(deps.options);
  return async (url, since, signal) => {
    const { options, clock } = deps;
    const kept = options.host === 'github.com' || options.host.endsWith('.ghe.com') ? KEPT.public : KEPT.own;
    const from = Math.max(Date.parse(since), clock.now() - kept);
    let asked = 0;
    for (const { api, path } of await listsOf(deps, url, signal)) {
      const failed = failedIn(await readSince({ api, path }, from, signal), eventsOf(options));
      for (const id of failed.slice(0, MOST_AT_ONCE - asked))
        if (await askAgain(api, `${path}/${id}/attempts`, signal)) asked++;
    }
    return asked;
  };
}

interface DeliveryList {
  readonly api: Api;
  readonly path: string;
}

/** The deliveries of the hooks that go to this address, as far as they may be looked at. */
async function listsOf(deps: RedeliverDeps, url: string, signal: AbortSignal): Promise<readonly DeliveryList[]> {
  const { api, appApi, options, repositories, findHook } = deps;
  if (appApi) {
    const config = await appHook(appApi, signal);
    return config?.url === url ? [{ api: appApi, path: '/app/hook/deliveries' }] : [];
  }
  const lists: DeliveryList[] = [];
  for (const { path } of await placesOf(options, repositories, signal)) {
    const found = await orUndefined(findHook(path, url, signal));
    if (found) lists.push({ api, path: `${path}/${found.id}/deliveries` });
  }
  return lists;
}

const attempt = z.object({
  id: z.int().positive(),
  guid: z.string().min(1),
  delivered_at: z.iso.datetime({ offset: true }),
  status: z.string(),
  event: z.string(),
  installation_id: z.int().nullish().catch(undefined),
});
type Attempt = z.infer<typeof attempt>;

type ReadSince = (list: DeliveryList, from: number, signal: AbortSignal) => Promise<readonly Attempt[]>;

/** Newest first, until the list reaches back beyond the time. A hook that was quiet since the last time costs nothing. */
function createReader({ app }: Options): ReadSince {
  const pages = createMemory<AttemptPage>();
  // The webhook of an App has the deliveries of all its installations.
  const isOurs = ({ installation_id: id }: Attempt) => !app || id == null || String(id) === app.installationId;
  return async ({ api, path }, from, signal) => {
    const attempts: Attempt[] = [];
    let query: string | undefined = 'per_page=100';
    for (let count = 0; query !== undefined && count < MOST_PAGES; count++) {
      const present: string = query;
      const ask = (etag?: string) => api.get(path, { query: present, etag, signal, use: 'poll' });
      const parse = (answer: HttpAnswer) => readAttempts(api, answer, path);
      // Cursors are new each time: only the first page is worth remembering.
      const page: AttemptPage = count === 0 ? await pages.read(path, ask, parse) : parse(await ask());
      const recent = page.attempts.filter(({ delivered_at }) => Date.parse(delivered_at) >= from);
      attempts.push(...recent.filter(isOurs));
      query = recent.length < page.attempts.length ? undefined : page.next;
    }
    return attempts;
  };
}

interface AttemptPage {
  readonly attempts: readonly Attempt[];
  readonly next: string | undefined;
}

function readAttempts(api: Api, answer: HttpAnswer, path: string): AttemptPage {
  const attempts = parseAnswer(z.array(attempt), readAnswer(answer, `GET ${path}`), `GET ${path}`);
  return { attempts, next: api.nextQuery(answer, path) };
}

/** Pure: one id for each delivery that never arrived, oldest first. All attempts at one delivery share its guid. */
function failedIn(attempts: readonly Attempt[], events: readonly string[]): readonly number[] {
  const groups = Map.groupBy(attempts, ({ guid }) => guid);
  return [...groups.values()]
    .filter((group) => group.length < MOST_ATTEMPTS && group.every(({ status }) => status !== 'OK'))
    .filter(([first]) => first !== undefined && events.includes(first.event))
    .map((group) => group.toSorted((a, b) => Date.parse(a.delivered_at) - Date.parse(b.delivered_at))[0] as Attempt)
    .toSorted((a, b) => Date.parse(a.delivered_at) - Date.parse(b.delivered_at))
    .map(({ id }) => id);
}

/** One that is too old by now, or was switched off, is none of ours any more. */
async function askAgain(api: Api, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    return (await api.write('POST', path, { signal })).status !== 422;
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code === 'not_found' || error.status === 400) return false;
    throw error;
  }
}
