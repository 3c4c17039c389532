import { z } from 'zod';
import { asSyncError } from '../../model/errors/sync-error.ts';
import type { HttpAnswer } from '../../platform/http/http-client.ts';
import { longNumbersAsTexts } from '../../platform/http/parse-json.ts';
import { isSuccess } from '../../platform/http/semantics.ts';
import type { Clock } from '../../platform/lib/clock.ts';
import type { Connection } from '../connector.ts';
import { createMemory } from '../kit/cached-reads.ts';
import { parseAnswer, readAnswer } from '../kit/payload.ts';
import {
  type AttemptPage,
  createRedelivery,
  type DeliveryList,
  type ListedAttempt,
  pagedDeliveries,
} from '../kit/redelivery.ts';
import { undefinedOn } from '../kit/refusal.ts';
import type { Api } from './api.ts';
import { appHook, eventsOf } from './hooks.ts';
import type { Options } from './options.ts';
import { HIDDEN, type Parts, placesOf } from './places.ts';

type Redeliver = NonNullable<Connection['redeliver']>;

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** How long GitHub keeps deliveries (GH1). */
const KEPT = { public: 3 * DAY, own: 7 * DAY };
const LIMITS = { mostAttempts: 3, mostOfList: 60, mostAtOnce: 60 };
/** GitHub may list a delivery some minutes after it sent it, behind newer ones that are already listed. */
const LATE = 10 * MINUTE;
const MOST_PAGES = { failed: 10, all: 10 };

/** GitHub does not repeat a failed delivery itself, so worksync requests it. */
export function createRedeliver(deps: Parts): Redeliver {
  const { options, clock } = deps;
  const isPublic = options.host === 'github.com' || options.host.endsWith('.ghe.com');
  const keptFor = isPublic ? KEPT.public : KEPT.own;
  const asList = createLists(options, clock, keptFor);
  return createRedelivery(clock, { ...LIMITS, keptFor }, async (url, signal) =>
    (await listsOf(deps, url, signal)).map(asList),
  );
}

/** The list of the deliveries of one hook, with its credential. */
interface Deliveries {
  readonly api: Api;
  readonly path: string;
}

/** Returns the lists of deliveries of the hooks that send to this address, as far as this credential may read them. */
async function listsOf(deps: Parts, url: string, signal: AbortSignal): Promise<readonly Deliveries[]> {
  const { api, appApi, findHook } = deps;
  if (appApi) {
    const config = await appHook(appApi, signal);
    return config?.url === url ? [{ api: appApi, path: '/app/hook/deliveries' }] : [];
  }
  const lists: Deliveries[] = [];
  for (const { path } of await placesOf(deps, signal)) {
    const found = await undefinedOn(findHook(path, url, signal), ...HIDDEN);
    if (found) lists.push({ api, path: `${path}/${found.id}/deliveries` });
  }
  return lists;
}

const attempt = z.object({
  /** An id of 64 bits: one that no number can represent exactly is a text. */
  id: z.union([z.int().positive(), z.string().regex(/^\d{16,20}$/)]).transform(String),
  guid: z.string().min(1),
  delivered_at: z.iso.datetime({ offset: true }).transform((text) => Date.parse(text)),
  status: z.string(),
  status_code: z.int().nullish().catch(undefined),
  event: z.string(),
  installation_id: z.int().nullish().catch(undefined),
});
type Attempt = z.infer<typeof attempt>;

const NEWEST = 'per_page=100';
const FAILED = 'status=failure&per_page=100';

function createLists({ app, issues }: Options, clock: Clock, keptFor: number): (of: Deliveries) => DeliveryList {
  const pages = createMemory<AttemptPage>();
  const events = eventsOf({ issues });

  /** Caches only first pages, which cost nothing while unchanged: the cursors of other pages are new each time. */
  async function read({ api, path }: Deliveries, query: string, signal: AbortSignal): Promise<AttemptPage> {
    const ask = (etag?: string) => api.get(path, { query, etag, signal, use: 'poll' });
    const parse = (answer: HttpAnswer) => {
      const found = parseAnswer(
        z.array(attempt),
        readAnswer({ ...answer, body: longNumbersAsTexts(answer.body) }, `GET ${path}`),
        `GET ${path}`,
      );
      return { attempts: found.map(listed), next: api.nextQuery(answer, path) };
    };
    return query === NEWEST || query === FAILED ? pages.read(`${path}?${query}`, ask, parse) : parse(await ask());
  }

  /** The webhook of an App has the deliveries of all its installations. */
  function listed({
    guid,
    id: number,
    delivered_at: order,
    installation_id: id,
    event,
    ...one
  }: Attempt): ListedAttempt {
    const isForeign = !events.includes(event) || (app !== undefined && id != null && String(id) !== app.installationId);
    return { delivery: guid, attempt: number, order, result: resultOf(one), isForeign };
  }

  return (of) =>
    pagedDeliveries({
      name: of.path,
      read: (query, signal) => read(of, query, signal),
      queries: { newest: NEWEST, failed: [FAILED] },
      pageSize: 100,
      mostPages: MOST_PAGES,
      mark: { read: (text) => Date.parse(text), write: (time) => new Date(time).toISOString() },
      floorOf: (last) => Math.max(clock.now() - keptFor, last - LATE),
      resend: (id, signal) => requestAgain(of.api, `${of.path}/${id}/attempts`, signal),
    });
}

function resultOf({ status, status_code: code }: Pick<Attempt, 'status' | 'status_code'>): ListedAttempt['result'] {
  if (status === 'OK' || (typeof code === 'number' && isSuccess(code))) return 'arrived';
  return typeof code === 'number' && code >= 400 && code <= 599 ? 'refused' : 'unanswered';
}

/** `gone`: the delivery is too old now, or its hook is switched off. */
async function requestAgain(api: Api, path: string, signal: AbortSignal): Promise<'requested' | 'gone'> {
  try {
    return (await api.write('POST', path, { explained: [422], signal })).status === 422 ? 'gone' : 'requested';
  } catch (thrown) {
    const error = asSyncError(thrown);
    if (error.code === 'not_found' || error.status === 400) return 'gone';
    throw error;
  }
}
