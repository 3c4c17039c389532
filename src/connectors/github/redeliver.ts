import { z } from 'zod';
import { asSyncError } from '../../errors/sync-error.ts';
import type { HttpAnswer } from '../../http/http-client.ts';
import { isSuccess } from '../../http/semantics.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Connection } from '../connector.ts';
import { parseAnswer, readExactly } from '../kit/json.ts';
import { createMemory } from '../kit/listing.ts';
import {
  createRedelivery,
  type DeliveryList,
  type ListedAttempt,
  type Look,
  onlyNewest,
  sortedOut,
} from '../kit/redelivery.ts';
import type { Api } from './api.ts';
import { appHook, eventsOf } from './hooks.ts';
import type { Options } from './options.ts';
import { orUndefined, type Parts, placesOf } from './places.ts';

type Redeliver = NonNullable<Connection['redeliver']>;

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** How long GitHub keeps deliveries (GH1). */
const KEPT = { public: 3 * DAY, own: 7 * DAY };
const LIMITS = { mostAttempts: 3, mostOfList: 60, mostAtOnce: 60 };
/** GitHub may list a delivery some minutes after it sent it, behind newer ones that are listed already. */
const LATE = 10 * MINUTE;
/** How many pages of 100 a round reads of one list at most. */
const MOST_PAGES = 10;

/** GitHub does not repeat a failed delivery by itself, so worksync asks for it. */
export function createRedeliver(deps: Parts): Redeliver {
  const { options, clock } = deps;
  const isPublic = options.host === 'github.com' || options.host.endsWith('.ghe.com');
  const keptFor = isPublic ? KEPT.public : KEPT.own;
  const asList = createLists(options, clock, keptFor);
  return createRedelivery(clock, { ...LIMITS, keptFor }, async (url, signal) =>
    (await listsOf(deps, url, signal)).map(asList),
  );
}

/** Where the deliveries of one hook are listed, and with which credential. */
interface Deliveries {
  readonly api: Api;
  readonly path: string;
}

/** The lists of deliveries of the hooks that send to this address, as far as this credential may read them. */
async function listsOf(deps: Parts, url: string, signal: AbortSignal): Promise<readonly Deliveries[]> {
  const { api, appApi, findHook } = deps;
  if (appApi) {
    const config = await appHook(appApi, signal);
    return config?.url === url ? [{ api: appApi, path: '/app/hook/deliveries' }] : [];
  }
  const lists: Deliveries[] = [];
  for (const { path } of await placesOf(deps, signal)) {
    const found = await orUndefined(findHook(path, url, signal));
    if (found) lists.push({ api, path: `${path}/${found.id}/deliveries` });
  }
  return lists;
}

const attempt = z.object({
  /** Of 64 bits: an id that no number can represent exactly comes as a text. */
  id: z.union([z.int().positive(), z.string().regex(/^\d{16,20}$/)]).transform(String),
  guid: z.string().min(1),
  delivered_at: z.iso.datetime({ offset: true }).transform((text) => Date.parse(text)),
  status: z.string(),
  status_code: z.int().nullish().catch(undefined),
  event: z.string(),
  installation_id: z.int().nullish().catch(undefined),
});
type Attempt = z.infer<typeof attempt>;

interface Page {
  readonly attempts: readonly Attempt[];
  readonly next: string | undefined;
}

/** The attempts behind the first page, as far as they were read, and why some may be missing. */
interface Found {
  readonly attempts: readonly Attempt[];
  readonly isWhole: boolean;
  readonly cut: string;
}

const NOTHING: Found = { attempts: [], isWhole: true, cut: '' };

const NEWEST = 'per_page=100';
const FAILED = 'status=failure&per_page=100';

/**
 * Reads the list of a hook, newest first, back to where the last look ended. If the first page reaches back so far, it is
 * enough; else GitHub's own filter finds what failed among the rest. The filter goes by the status of the answer. So if the
 * first page shows a failure without a status, or the server does not know the filter, this reads the whole list.
 */
function createLists({ app, issues }: Options, clock: Clock, keptFor: number): (of: Deliveries) => DeliveryList {
  const pages = createMemory<Page>();
  const events = eventsOf({ issues });
  // The webhook of an App has the deliveries of all its installations.
  const isOurs = ({ installation_id: id, event }: Attempt) =>
    events.includes(event) && (!app || id == null || String(id) === app.installationId);

  /** Remembers only first pages, which cost nothing while unchanged: the cursors of other pages are new each time. */
  async function read({ api, path }: Deliveries, query: string, signal: AbortSignal): Promise<Page> {
    const ask = (etag?: string) => api.get(path, { query, etag, signal, use: 'poll' });
    const parse = (answer: HttpAnswer) => readAttempts(api, answer, path);
    return query === NEWEST || query === FAILED ? pages.read(`${path}?${query}`, ask, parse) : parse(await ask());
  }

  /** Reads page after page, back to that time, but no more than the most pages. */
  async function walk(of: Deliveries, from: string | undefined, oldest: number, signal: AbortSignal) {
    const attempts: Attempt[] = [];
    let query = from;
    for (let count = 0; query !== undefined && count < MOST_PAGES; count++) {
      const page: Page = await read(of, query, signal);
      const recent = page.attempts.filter((each) => each.delivered_at >= oldest);
      attempts.push(...recent);
      query = recent.length < page.attempts.length ? undefined : page.next;
    }
    return { attempts, isWhole: query === undefined };
  }

  /** Finds the failed attempts behind a first page that does not reach back far enough. */
  async function findRest(of: Deliveries, first: Page, oldest: number, signal: AbortSignal): Promise<Found> {
    const failed = await walk(of, FAILED, oldest, signal);
    if (failed.attempts.some(hasArrived)) return { ...failed, cut: NO_FILTER };
    const recent = first.attempts.filter((each) => each.delivered_at >= oldest);
    if (recent.every((each) => hasArrived(each) || hasCode(each))) return { ...failed, cut: CUT };
    const rest = await walk(of, first.next, oldest, signal);
    const attempts = [...failed.attempts, ...rest.attempts];
    return { attempts, isWhole: failed.isWhole && rest.isWhole, cut: CUT };
  }

  async function look(of: Deliveries, from: string | undefined, signal: AbortSignal): Promise<Look> {
    const last = from === undefined ? 0 : Date.parse(from);
    const oldest = Math.max(clock.now() - keptFor, last - LATE);
    const first = await read(of, NEWEST, signal);
    const isBeyond = first.next === undefined || first.attempts.some((each) => each.delivered_at < oldest);
    const rest = isBeyond ? NOTHING : await findRest(of, first, oldest, signal);
    const attempts = [...first.attempts, ...rest.attempts].filter(
      (each) => each.delivered_at >= oldest && isOurs(each),
    );
    const newest = Math.max(last, ...first.attempts.map((each) => each.delivered_at));
    return {
      ...sortedOut(attempts.map(listed)),
      upTo: newest === 0 ? undefined : new Date(newest).toISOString(),
      ...(rest.isWhole ? {} : { cut: rest.cut }),
    };
  }

  return (of) => ({
    name: of.path,
    look: (from, signal) => look(of, from, signal),
    ask: (id, signal) => askAgain(of.api, `${of.path}/${id}/attempts`, signal),
  });
}

const CUT = onlyNewest(MOST_PAGES * 100);
const NO_FILTER = `this server does not filter deliveries by status: only the newest ${MOST_PAGES * 100} are checked in a round, and polls bring the rest`;

function readAttempts(api: Api, answer: HttpAnswer, path: string): Page {
  const attempts = parseAnswer(z.array(attempt), readExactly(answer, `GET ${path}`), `GET ${path}`);
  return { attempts, next: api.nextQuery(answer, path) };
}

function hasArrived({ status, status_code: code }: Attempt): boolean {
  return status === 'OK' || (typeof code === 'number' && isSuccess(code));
}

/** Whether the vendor's filter for failures finds it. */
function hasCode({ status_code: code }: Attempt): boolean {
  return typeof code === 'number' && code >= 400 && code <= 599;
}

function listed(one: Attempt): ListedAttempt {
  return { delivery: one.guid, attempt: one.id, order: one.delivered_at, hasArrived: hasArrived(one) };
}

/** `gone`: the delivery is too old by now, or its hook is switched off. */
async function askAgain(api: Api, path: string, signal: AbortSignal): Promise<'asked' | 'gone'> {
  try {
    return (await api.write('POST', path, { explained: [422], signal })).status === 422 ? 'gone' : 'asked';
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code === 'not_found' || error.status === 400) return 'gone';
    throw error;
  }
}
